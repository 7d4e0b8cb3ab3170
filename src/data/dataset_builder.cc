#include "data/dataset_builder.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "data/ordered_encoder.h"
#include "data/split_writer.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {
namespace {

constexpr int64_t kProgressIntervalNs = 100'000'000;

// Encodes what a reader gives and hands it on in order.
class BuildRun {
 public:
  BuildRun(const Tokenizer& tokenizer, const BuildOptions& options, const BuildProgressCallback& progress)
      : tokenizer_(tokenizer), options_(options), progress_(progress), started_ns_(monotonic_ns()) {
    if (options.bos) bos_ = begin_of_text(tokenizer);
  }

  double seconds() const { return static_cast<double>(monotonic_ns() - started_ns_) * 1e-9; }

  // `target` has begin_document and append, each giving a Result<void>.
  template <class Target>
  Result<ReadStats> encode_all(const std::vector<std::string>& paths, Target& target) {
    INGOT_TRY(std::vector<SourceFile> sources, find_source_files(paths, options_.format));
    source_files_ += static_cast<int64_t>(sources.size());
    ReaderOptions reading;
    reading.text_field = options_.text_field;
    reading.text_field_option = options_.text_field_option;
    reading.piece_bytes = options_.piece_bytes;
    DocumentReader reader(std::move(sources), reading);
    OrderedEncoder encoder(tokenizer_, options_.threads > 0 ? options_.threads : available_threads());
    const int64_t encoding_started_ns = monotonic_ns();
    bool at_end = false;
    while (true) {
      while (!at_end && !encoder.full()) {
        INGOT_TRY(std::unique_ptr<EncodeUnit> unit, read_unit(reader, &at_end));
        if (!unit->pieces.empty()) encoder.submit(std::move(unit));
      }
      if (encoder.empty()) break;
      std::unique_ptr<EncodeUnit> unit = encoder.next();
      if (unit->failed) {
        const EncodeUnit::Piece& piece = unit->pieces[unit->failed_piece];
        return Error(*unit->failed).context(reader.place(piece.source, piece.line));
      }
      INGOT_TRY_VOID(write_unit(*unit, target));
      spare_.push_back(std::move(unit));
      report(reader, false);
    }
    report(reader, true);
    encoding_ns_ += monotonic_ns() - encoding_started_ns;
    return reader.stats();
  }

  double encoding_seconds() const { return static_cast<double>(encoding_ns_) * 1e-9; }
  int64_t source_files() const { return source_files_; }

 private:
  Result<std::unique_ptr<EncodeUnit>> read_unit(DocumentReader& reader, bool* at_end) {
    std::unique_ptr<EncodeUnit> unit = empty_unit();
    DocumentPiece& piece = piece_;
    while (static_cast<int64_t>(unit->text.size()) < options_.piece_bytes) {
      INGOT_TRY(const bool more, reader.next(piece));
      if (!more) {
        *at_end = true;
        break;
      }
      unit->pieces.push_back(
          {piece.text.size(), 0, piece.begins_document, piece.ends_document, piece.source, piece.line});
      if (unit->text.empty()) {
        unit->text.swap(piece.text);
      } else {
        unit->text += piece.text;
      }
    }
    return unit;
  }

  // One that was written, for its memory, or a new one.
  std::unique_ptr<EncodeUnit> empty_unit() {
    if (spare_.empty()) return std::make_unique<EncodeUnit>();
    std::unique_ptr<EncodeUnit> unit = std::move(spare_.back());
    spare_.pop_back();
    unit->text.clear();
    unit->pieces.clear();
    unit->ids.clear();
    return unit;
  }

  template <class Target>
  Result<void> write_unit(const EncodeUnit& unit, Target& target) {
    std::span<const int32_t> ids(unit.ids);
    for (const EncodeUnit::Piece& piece : unit.pieces) {
      if (piece.begins_document) {
        INGOT_TRY_VOID(target.begin_document());
        ++documents_;
        if (bos_) INGOT_TRY_VOID(put(std::span<const int32_t>(&*bos_, 1), target));
      }
      INGOT_TRY_VOID(put(ids.first(piece.ids), target));
      ids = ids.subspan(piece.ids);
      text_bytes_ += static_cast<int64_t>(piece.text_bytes);
      if (const auto end = tokenizer_.end_of_text(); piece.ends_document && end) {
        INGOT_TRY_VOID(put(std::span<const int32_t>(&*end, 1), target));
      }
    }
    return {};
  }

  template <class Target>
  Result<void> put(std::span<const int32_t> ids, Target& target) {
    tokens_ += static_cast<int64_t>(ids.size());
    return target.append(ids);
  }

  void report(const DocumentReader& reader, bool always) {
    const int64_t now = monotonic_ns();
    if (!progress_ || (!always && now - reported_ns_ < kProgressIntervalNs)) return;
    reported_ns_ = now;
    progress_({.stored_bytes_done = reader.stored_bytes_done(),
               .stored_bytes_total = reader.stored_bytes_total(),
               .text_bytes = text_bytes_,
               .tokens = tokens_,
               .documents = documents_,
               .seconds = seconds()});
  }

  const Tokenizer& tokenizer_;
  const BuildOptions& options_;
  const BuildProgressCallback& progress_;
  std::optional<int32_t> bos_;
  DocumentPiece piece_;
  std::vector<std::unique_ptr<EncodeUnit>> spare_;
  int64_t started_ns_;
  int64_t reported_ns_ = 0;
  int64_t encoding_ns_ = 0;
  int64_t source_files_ = 0;
  int64_t text_bytes_ = 0;
  int64_t tokens_ = 0;
  int64_t documents_ = 0;
};

// A split as a target of BuildRun.
struct WholeSplit {
  SplitWriter& writer;
  Result<void> begin_document() {
    writer.begin_document();
    return {};
  }
  Result<void> append(std::span<const int32_t> ids) { return writer.append(ids); }
};

Result<void> check_options(const Tokenizer& tokenizer, const BuildOptions& options) {
  if (options.out.empty()) return invalid("No folder was named to build the data in");
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    return invalid(fmt::format("The validation part is {}; it must be at least 0 and below 1",
                               options.validation_fraction));
  }
  if (options.shard_bytes < 4096 || options.piece_bytes < 1) {
    return invalid(fmt::format("Shards of {} and pieces of {} are too small; shards need at least 4 KiB",
                               format_bytes(options.shard_bytes), format_bytes(options.piece_bytes)));
  }
  if (options.bos && !begin_of_text(tokenizer)) {
    return invalid(fmt::format("data.bos = true needs a begin-of-text token, and the tokenizer {} has none",
                               tokenizer.name()));
  }
  return {};
}

bool is_file_of_a_build(std::string_view name) {
  return name == "dataset.json" || name == "tokenizer.json" || name.ends_with(".tok");
}

// What is replaced is deleted, so it must be a data set and nothing besides: a corpus, a home folder or a
// file named by mistake stays.
Result<void> check_place(const BuildOptions& options) {
  if (!path_exists(options.out)) return {};
  if (!options.replace) {
    return invalid(
        fmt::format("{} exists already. Choose another folder, or replace it (--replace)", options.out));
  }
  const auto names = list_directory(options.out);
  if (!names) {
    return invalid(fmt::format(
        "{} is not a data set folder, so it is not replaced. Remove it, or choose another", options.out));
  }
  for (const std::string& name : *names) {
    if (is_file_of_a_build(name)) continue;
    return invalid(
        fmt::format("{} holds {}, which no build of a data set wrote, so it is not replaced. Move that "
                    "away, or choose another folder",
                    options.out, name));
  }
  return {};
}

// Special tokens stand for no text. (A normalizer may make this differ a little from the bytes that were
// read.)
std::vector<uint32_t> text_bytes_by_id(const Tokenizer& tokenizer) {
  std::vector<uint32_t> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  for (size_t id = 0; id < bytes.size(); ++id) {
    bytes[id] = static_cast<uint32_t>(tokenizer.token_bytes(static_cast<int32_t>(id)).size());
  }
  for (const std::optional<int32_t> special : {tokenizer.end_of_text(), begin_of_text(tokenizer)}) {
    if (special) bytes[static_cast<size_t>(*special)] = 0;
  }
  return bytes;
}

std::vector<std::string> warnings_of(const BuildReport& report, const BuildOptions& options) {
  std::vector<std::string> warnings = describe_skipped(report.train_reading);
  for (std::string& sentence : describe_skipped(report.validation_reading))
    warnings.push_back(std::move(sentence));
  if (report.manifest.validation.tokens == 0 && options.validation_fraction > 0) {
    warnings.push_back(
        fmt::format("No document of {} fell into the validation part of {}. Name text for it "
                    "(data.validation = \"path\"), or take a larger part",
                    report.train_reading.documents, options.validation_fraction));
  }
  return warnings;
}

}  // namespace

std::optional<int32_t> begin_of_text(const Tokenizer& tokenizer) {
  constexpr std::array<std::string_view, 4> kNames = {"<|begin_of_text|>", "<|bos|>", "<bos>",
                                                      "<｜begin▁of▁sentence｜>"};
  for (int32_t id = tokenizer.vocab_size() - 1; id >= 0; --id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (std::find(kNames.begin(), kNames.end(), bytes) != kNames.end()) return id;
  }
  return tokenizer.end_of_text();
}

Result<BuildReport> build_dataset(const Tokenizer& tokenizer, const BuildOptions& options,
                                  const BuildProgressCallback& progress) {
  INGOT_TRY_VOID(check_options(tokenizer, options));
  INGOT_TRY_VOID(check_place(options));
  INGOT_TRY(AtomicDirectory folder, AtomicDirectory::create(options.out, options.replace));
  const std::string& staging = folder.staging_path();
  const TokenShardOptions shard{tokenizer.vocab_size(), tokenizer.fingerprint(), options.block_bytes};
  const bool own_validation = !options.validation_sources.empty();
  const std::vector<uint32_t> text_bytes = text_bytes_by_id(tokenizer);
  SplitWriter train(staging, "train", shard, options.shard_bytes, text_bytes);
  SplitWriter validation(staging, "validation", shard, options.shard_bytes, text_bytes);
  SplitRouter router(train, validation, own_validation ? 0 : options.validation_fraction, options.seed,
                     staging + "/first-document", options.held_tokens, shard);

  BuildRun run(tokenizer, options, progress);
  BuildReport report;
  DatasetManifest& manifest = report.manifest;
  INGOT_TRY(report.train_reading, run.encode_all(options.sources, router));
  const int64_t finishing_ns = monotonic_ns();
  INGOT_TRY(manifest.validation_rule, router.finish());
  report.encoding_seconds = static_cast<double>(monotonic_ns() - finishing_ns) * 1e-9;
  if (own_validation) {
    WholeSplit target{validation};
    INGOT_TRY(report.validation_reading, run.encode_all(options.validation_sources, target));
    manifest.validation_rule = "own sources";
  }
  report.encoding_seconds += run.encoding_seconds();
  INGOT_TRY(manifest.train, train.finish());
  INGOT_TRY(manifest.validation, validation.finish());
  if (manifest.train.tokens == 0) {
    return invalid(
        "Nothing was left for training: the text gave no tokens, or all of it fell into the validation part");
  }
  manifest.tokenizer_name = options.tokenizer_name.empty() ? tokenizer.name() : options.tokenizer_name;
  manifest.tokenizer_fingerprint = tokenizer.fingerprint();
  manifest.vocab_size = tokenizer.vocab_size();
  manifest.seed = options.seed;
  manifest.validation_fraction = own_validation ? 0 : options.validation_fraction;
  manifest.text_field = options.text_field;
  manifest.bos = options.bos;
  manifest.source_files = run.source_files();
  manifest.skipped_lines = report.train_reading.skipped() + report.validation_reading.skipped();
  manifest.warnings = warnings_of(report, options);
  INGOT_TRY_VOID(save_tokenizer(tokenizer, staging + "/tokenizer.json"));
  INGOT_TRY_VOID(write_file_atomically(staging + "/dataset.json", to_json(manifest)));
  INGOT_TRY_VOID(folder.commit());
  report.seconds = run.seconds();
  return report;
}

}  // namespace ingot::data
