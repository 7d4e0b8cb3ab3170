#include "data/prepared.h"

#include <algorithm>
#include <bit>

#include "base/file.h"
#include "base/hash.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/train_bpe.h"

namespace ingot::data {
namespace {

// Bytes of text that a tokenizer is trained on; more changes hardly a merge and costs memory.
constexpr int64_t kMaxTrainingText = int64_t{256} << 20;
constexpr int64_t kTextPerStoredByte =
    3;  // of compressed text, a guess that only the vocabulary's size rests on
constexpr std::string_view kCacheVersion = "ingot data cache 2";

bool is_compressed(const std::string& path) {
  return path.ends_with(".gz") || path.ends_with(".dz") || path.ends_with(".zst");
}

int64_t estimated_text_bytes(const std::vector<SourceFile>& sources) {
  int64_t bytes = 0;
  for (const SourceFile& source : sources) {
    bytes += source.stored_bytes * (is_compressed(source.path) ? kTextPerStoredByte : 1);
  }
  return bytes;
}

bool reads_standard_input(const std::vector<SourceFile>& sources) {
  return std::any_of(sources.begin(), sources.end(), [](const SourceFile& s) { return s.path == "-"; });
}

// What the build depends on, as one number.
class CacheKey {
 public:
  void add(std::string_view text) {
    number(static_cast<uint64_t>(text.size()));
    hasher_.update(std::as_bytes(std::span<const char>(text.data(), text.size())));
  }
  void number(uint64_t value) { hasher_.update(std::as_bytes(std::span<const uint64_t>(&value, 1))); }
  void sources(const std::vector<SourceFile>& files) {
    number(files.size());
    for (const SourceFile& file : files) {
      add(file.path);
      number(static_cast<uint64_t>(file.format));
      number(static_cast<uint64_t>(file.stored_bytes));
      number(static_cast<uint64_t>(file.modified_ns));
    }
  }
  std::string name() const { return hash_hex(hasher_.digest()); }

 private:
  Hasher hasher_;
};

// Text that is to become a data set: found files, and how its tokenizer comes about.
struct RawText {
  std::vector<SourceFile> train;
  std::vector<SourceFile> validation;
};

ReaderOptions reader_options(const PrepareOptions& options) {
  ReaderOptions reading;
  reading.text_field = options.text_field;
  reading.text_field_option = options.text_field_option;
  return reading;
}

Result<std::unique_ptr<Tokenizer>> train_tokenizer(const PrepareOptions& options,
                                                   const std::vector<SourceFile>& sources,
                                                   std::vector<std::string>* notes) {
  BpeTrainingOptions training;
  const int64_t vocab =
      options.auto_vocab > 0 ? options.auto_vocab : automatic_vocab(estimated_text_bytes(sources));
  training.vocab_size = static_cast<int32_t>(std::min(vocab, int64_t{1} << 20));
  training.threads = options.threads > 0 ? options.threads : available_threads();
  DocumentReader reader(sources, reader_options(options));
  DocumentPiece piece;
  bool limited = false;
  const TextSource source = [&](std::string& text) -> Result<bool> {
    limited = reader.stats().text_bytes >= kMaxTrainingText;
    if (limited) return false;
    INGOT_TRY(const bool more, reader.next(piece));
    if (more) text.swap(piece.text);
    return more;
  };
  INGOT_TRY(std::unique_ptr<Tokenizer> tokenizer, train_bpe(source, training));
  tokenizer->set_name("trained");
  if (limited)
    notes->push_back(
        fmt::format("the tokenizer was trained on the first {} of the text", format_bytes(kMaxTrainingText)));
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> character_tokenizer(const PrepareOptions& options, const RawText& text) {
  CharacterVocabulary vocabulary;
  for (const std::vector<SourceFile>* sources : {&text.train, &text.validation}) {
    DocumentReader reader(*sources, reader_options(options));
    DocumentPiece piece;
    while (true) {
      INGOT_TRY(const bool more, reader.next(piece));
      if (!more) break;
      if (auto added = vocabulary.add(piece.text); !added) {
        return std::move(added).take_error().context(reader.place(piece.source, piece.line));
      }
    }
  }
  INGOT_TRY(std::unique_ptr<Tokenizer> tokenizer, vocabulary.build());
  tokenizer->set_name("chars");
  return tokenizer;
}

bool is_made_from_text(const PrepareOptions& options) {
  return options.tokenizer.empty() || options.tokenizer == "auto" || options.tokenizer == "chars";
}

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const PrepareOptions& options, const RawText& text,
                                                  std::vector<std::string>* notes) {
  if (reads_standard_input(text.train) || reads_standard_input(text.validation)) {
    return invalid(
        "Standard input can be read once, and making a tokenizer from text takes a pass of its own. Save the "
        "text to a file, or name a tokenizer (data.tokenizer = \"bytes\", or a path)");
  }
  if (options.tokenizer == "chars") return character_tokenizer(options, text);
  return train_tokenizer(options, text.train, notes);
}

std::vector<std::string> paths_of(const std::vector<SourceFile>& sources) {
  std::vector<std::string> paths;
  for (const SourceFile& source : sources) paths.push_back(source.path);
  return paths;
}

std::string cache_name(const PrepareOptions& options, const RawText& text, const Tokenizer* tokenizer) {
  CacheKey key;
  key.add(kCacheVersion);
  key.sources(text.train);
  key.sources(text.validation);
  key.number(std::bit_cast<uint64_t>(text.validation.empty() ? options.validation_fraction : 0.0));
  key.add(options.text_field);
  key.number(options.seed);
  key.number(options.bos ? 1 : 0);
  if (tokenizer != nullptr) {
    key.number(tokenizer->fingerprint());
  } else {
    key.add(options.tokenizer.empty() ? "auto" : options.tokenizer);
    key.number(static_cast<uint64_t>(options.auto_vocab));
  }
  return key.name();
}

// A folder of the cache, when it is there and sound.
bool open_cached(const std::string& folder, PreparedData* prepared) {
  if (!is_dataset_folder(folder)) return false;
  Result<Dataset> dataset = Dataset::open(folder);
  if (!dataset) {
    prepared->notes.push_back("built again, since the earlier build is damaged: " + dataset.error().message);
    return false;
  }
  auto tokenizer = load_tokenizer(dataset->tokenizer_path());
  if (!tokenizer || (*tokenizer)->fingerprint() != dataset->manifest().tokenizer_fingerprint) {
    prepared->notes.push_back("built again, since the tokenizer of the earlier build is damaged");
    return false;
  }
  prepared->dataset = std::move(*dataset);
  prepared->tokenizer = std::move(*tokenizer);
  prepared->tokenizer->set_name(prepared->dataset.manifest().tokenizer_name);
  return true;
}

Result<PreparedData> prepare_text(const PrepareOptions& options, const RawText& text,
                                  const BuildProgressCallback& progress) {
  INGOT_CHECK(!options.cache_folder.empty(), "no cache folder for built data");
  PreparedData prepared;
  std::unique_ptr<Tokenizer> tokenizer;
  if (!is_made_from_text(options)) {
    INGOT_TRY(tokenizer, load_tokenizer(options.tokenizer));
  }
  const std::string folder = options.cache_folder + "/" + cache_name(options, text, tokenizer.get());
  // Standard input has no size or time to know it by.
  const bool keep = !reads_standard_input(text.train) && !reads_standard_input(text.validation);
  if (keep && open_cached(folder, &prepared)) return prepared;
  if (tokenizer == nullptr) {
    INGOT_TRY(tokenizer, make_tokenizer(options, text, &prepared.notes));
  }
  BuildOptions build;
  build.sources = paths_of(text.train);
  build.validation_sources = paths_of(text.validation);
  build.validation_fraction = options.validation_fraction;
  build.format = options.format;
  build.text_field = options.text_field;
  build.text_field_option = options.text_field_option;
  build.seed = options.seed;
  build.bos = options.bos;
  build.threads = options.threads;
  build.tokenizer_name = tokenizer->name();
  build.out = folder;
  build.replace = true;
  INGOT_TRY_VOID(build_dataset(*tokenizer, build, progress));
  INGOT_TRY(prepared.dataset, Dataset::open(folder));
  prepared.tokenizer = std::move(tokenizer);
  prepared.built = true;
  return prepared;
}

Result<PreparedData> open_folder(const PrepareOptions& options, const std::string& folder) {
  PreparedData prepared;
  INGOT_TRY(prepared.dataset, Dataset::open(folder));
  const DatasetManifest& manifest = prepared.dataset.manifest();
  const bool own = options.tokenizer.empty() || options.tokenizer == "auto";
  INGOT_TRY(prepared.tokenizer, load_tokenizer(own ? prepared.dataset.tokenizer_path() : options.tokenizer));
  if (prepared.tokenizer->fingerprint() != manifest.tokenizer_fingerprint) {
    return invalid(fmt::format(
        "The data in {} was built with the tokenizer {}; {} gives other ids. Leave data.tokenizer "
        "out to use the data's own, or build the data with the other one",
        folder, manifest.tokenizer_name, own ? prepared.dataset.tokenizer_path() : options.tokenizer));
  }
  if (own) prepared.tokenizer->set_name(manifest.tokenizer_name);
  return prepared;
}

// Validation of its own beside a train folder: another folder, or text encoded with the folder's tokenizer.
Result<void> add_validation(const PrepareOptions& options, const BuildProgressCallback& progress,
                            PreparedData* prepared) {
  PrepareOptions own = options;
  own.train = options.validation;
  own.validation.clear();
  own.validation_fraction = 0;
  own.tokenizer = prepared->dataset.tokenizer_path();
  INGOT_TRY(PreparedData other, prepare_data(own, progress));
  for (std::string& note : other.notes) prepared->notes.push_back(std::move(note));
  for (std::string& warning : other.warnings) prepared->warnings.push_back(std::move(warning));
  prepared->dataset.set_validation(std::move(other.dataset).take_train());
  return {};
}

}  // namespace

PreparedData::PreparedData() = default;
PreparedData::PreparedData(PreparedData&&) noexcept = default;
PreparedData& PreparedData::operator=(PreparedData&&) noexcept = default;
PreparedData::~PreparedData() = default;

int64_t automatic_vocab(int64_t text_bytes) {
  constexpr int64_t kBytesPerToken = 1024;
  const auto near = std::bit_floor(static_cast<uint64_t>(std::max(text_bytes, int64_t{0}) / kBytesPerToken));
  return std::clamp(static_cast<int64_t>(near), int64_t{512}, int64_t{32768});
}

Result<PreparedData> prepare_data(const PrepareOptions& options, const BuildProgressCallback& progress) {
  const auto folders = std::count_if(options.train.begin(), options.train.end(), is_dataset_folder);
  if (folders == 0) {
    RawText text;
    INGOT_TRY(text.train, find_source_files(options.train, options.format));
    const bool built_validation =
        options.validation.size() == 1 && is_dataset_folder(options.validation.front());
    if (built_validation) {
      return invalid(
          fmt::format("data.train is text and data.validation = {} is a folder of built data. Give both as "
                      "text, or build data.train first with ingot data build",
                      options.validation.front()));
    }
    if (!options.validation.empty()) {
      INGOT_TRY(text.validation, find_source_files(options.validation, options.format));
    }
    INGOT_TRY(PreparedData prepared, prepare_text(options, text, progress));
    prepared.warnings = prepared.dataset.manifest().warnings;
    return prepared;
  }
  if (options.train.size() > 1) {
    return invalid("data.train names a folder of built data and more; give one such folder, or text only");
  }
  INGOT_TRY(PreparedData prepared, open_folder(options, options.train.front()));
  prepared.warnings = prepared.dataset.manifest().warnings;
  if (!options.validation.empty()) INGOT_TRY_VOID(add_validation(options, progress, &prepared));
  return prepared;
}

}  // namespace ingot::data
