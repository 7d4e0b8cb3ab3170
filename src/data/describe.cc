#include "data/describe.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kPartTokens = int64_t{1} << 16;

std::string row(std::string_view label, const std::string& rest) {
  return fmt::format("{:<15} {}\n", label, rest);
}

std::string sizes(int64_t tokens, int64_t documents, int64_t text_bytes) {
  std::string text = fmt::format("{} in {}, {} of text", counted(tokens, "token"),
                                 counted(documents, "document"), format_bytes(text_bytes));
  if (tokens > 0) {
    text +=
        fmt::format(", {:.2f} bytes a token", static_cast<double>(text_bytes) / static_cast<double>(tokens));
  }
  return text;
}

int64_t blocks_of(const std::vector<TokenShard>& shards) {
  int64_t blocks = 0;
  for (const TokenShard& shard : shards) blocks += shard.info().blocks;
  return blocks;
}

void verify_blocks(const TokenShard& shard, std::vector<std::string>* damaged) {
  for (const Error& error : shard.verify()) damaged->push_back(error.message);
}

// The hash of the whole file covers what block checksums do not: that it is the file of this build.
Result<void> verify_file(const TokenShard& shard, const ShardRecord& record,
                         std::vector<std::string>* damaged) {
  INGOT_TRY(const MappedFile file, MappedFile::open(shard.path()));
  if (hash64(file.bytes()) == record.hash) return {};
  damaged->push_back(
      fmt::format("{}: its blocks are sound, but it is not the file that dataset.json describes. It was "
                  "replaced, or bytes between its parts changed",
                  shard.path()));
  return {};
}

Result<void> verify_split(const TokenStream& stream, const SplitRecord& split,
                          std::vector<std::string>* damaged) {
  for (size_t i = 0; i < stream.shards().size(); ++i) {
    const size_t before = damaged->size();
    verify_blocks(stream.shards()[i], damaged);
    if (damaged->size() == before) INGOT_TRY_VOID(verify_file(stream.shards()[i], split.shards[i], damaged));
  }
  return {};
}

void add_verdict(int64_t blocks, DatasetDescription* description, Json* json) {
  const auto& damaged = description->damaged;
  description->text +=
      row("verified", damaged.empty() ? counted(blocks, "block") + ", all sound"
                                      : counted(static_cast<int64_t>(damaged.size()), "damage") + " in " +
                                            counted(blocks, "block"));
  (*json)["verified"] = {{"blocks", blocks}, {"damaged", damaged}};
}

std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

Result<DatasetDescription> describe_shard(const std::string& path, bool verify) {
  INGOT_TRY(const TokenShard shard, TokenShard::open(path));
  const TokenShardInfo& info = shard.info();
  DatasetDescription description;
  description.text = row("shard", path);
  description.text += row("holds", sizes(info.tokens, info.documents, info.text_bytes));
  description.text +=
      row("ids", fmt::format("below {}, {} bytes each, tokenizer {}", format_integer(info.vocab_size),
                             info.token_bytes, hash_hex(info.tokenizer_fingerprint)));
  description.text +=
      row("blocks", fmt::format("{} of {}", format_integer(info.blocks), format_bytes(info.block_bytes)));
  Json json = {{"format_version", kTokenShardVersion},
               {"tokens", info.tokens},
               {"documents", info.documents},
               {"text_bytes", info.text_bytes},
               {"vocab_size", info.vocab_size},
               {"tokenizer_fingerprint", hash_hex(info.tokenizer_fingerprint)},
               {"token_bytes", info.token_bytes},
               {"block_bytes", info.block_bytes},
               {"blocks", info.blocks}};
  if (verify) {
    verify_blocks(shard, &description.damaged);
    add_verdict(info.blocks, &description, &json);
  }
  description.json = dump(json);
  return description;
}

std::string split_row(const TokenStream& stream, const SplitRecord& split) {
  if (split.tokens == 0) return "none";
  return sizes(split.tokens, split.documents, split.text_bytes) + ", " +
         counted(static_cast<int64_t>(stream.shards().size()), "shard");
}

}  // namespace

Result<DatasetDescription> describe_dataset(const std::string& path, bool verify) {
  if (path_exists(path) && !is_dataset_folder(path) && path.ends_with(".tok"))
    return describe_shard(path, verify);
  INGOT_TRY(const Dataset dataset, Dataset::open(path));
  const DatasetManifest& manifest = dataset.manifest();
  DatasetDescription description;
  description.text = row("data", path);
  description.text += row("tokenizer", fmt::format("{}, {} tokens", manifest.tokenizer_name,
                                                   format_integer(manifest.vocab_size)));
  description.text += row("train", split_row(dataset.train(), manifest.train));
  description.text += row("validation", split_row(dataset.validation(), manifest.validation));
  std::string split = manifest.validation_rule;
  if (manifest.validation_fraction > 0) split += fmt::format(", {} of it", manifest.validation_fraction);
  description.text += row("split", fmt::format("{}, seed {}", split, manifest.seed));
  description.text += row("text", fmt::format("{}, {} skipped", counted(manifest.source_files, "file"),
                                              counted(manifest.skipped_lines, "line")));
  for (const std::string& sentence : manifest.warnings) description.text += row("warning", sentence);
  Json json = Json::parse(to_json(manifest));
  if (verify) {
    INGOT_TRY_VOID(verify_split(dataset.train(), manifest.train, &description.damaged));
    INGOT_TRY_VOID(verify_split(dataset.validation(), manifest.validation, &description.damaged));
    add_verdict(blocks_of(dataset.train().shards()) + blocks_of(dataset.validation().shards()), &description,
                &json);
  }
  description.json = dump(json);
  return description;
}

Result<void> print_documents(const Dataset& dataset, const Tokenizer& tokenizer, const CatOptions& options,
                             const std::function<Result<void>(std::string_view)>& sink) {
  if (options.split != "train" && options.split != "validation") {
    return invalid(fmt::format("There is no part {}; the parts are train and validation", options.split));
  }
  const TokenStream& stream = options.split == "train" ? dataset.train() : dataset.validation();
  if (options.first_document < 0 || options.first_document >= stream.documents()) {
    return invalid(fmt::format("There is no document {} in the {} part of {}; it has {}, counted from 0",
                               options.first_document, options.split, dataset.folder(),
                               format_integer(stream.documents())));
  }
  const int64_t left = stream.documents() - options.first_document;
  const int64_t end_document = options.first_document + std::clamp(options.documents, int64_t{0}, left);
  std::vector<int32_t> ids;
  for (int64_t d = options.first_document; d < end_document; ++d) {
    int64_t at = stream.document(d);
    int64_t end = d + 1 < stream.documents() ? stream.document(d + 1) : stream.tokens();
    if (options.max_tokens > 0) end = std::min(end, at + options.max_tokens);
    while (at < end) {
      ids.resize(static_cast<size_t>(std::min(kPartTokens, end - at)));
      INGOT_TRY_VOID(stream.read(at, ids));
      INGOT_TRY_VOID(sink(options.ids
                              ? fmt::format("{}{}", fmt::join(ids, " "), at + kPartTokens < end ? " " : "")
                              : tokenizer.decode(ids)));
      at += static_cast<int64_t>(ids.size());
    }
    INGOT_TRY_VOID(sink("\n"));
  }
  return {};
}

}  // namespace ingot::data
