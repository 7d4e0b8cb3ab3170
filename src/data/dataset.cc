#include "data/dataset.h"

#include <algorithm>

#include "base/counted.h"
#include "base/file.h"
#include "base/hash.h"

namespace ingot::data {
namespace {

constexpr std::string_view kManifestName = "dataset.json";

Error does_not_fit(const std::string& path, const std::string& what) {
  return corrupt(fmt::format(
      "{} does not fit the dataset.json beside it: {}. Files of two builds were mixed, or one was "
      "replaced; build the data again with ingot data build",
      path, what));
}

Result<TokenStream> open_split(const std::string& folder, const SplitRecord& split,
                               const DatasetManifest& manifest) {
  std::vector<TokenShard> shards;
  for (const ShardRecord& record : split.shards) {
    const std::string path = folder + "/" + record.file;
    if (!path_exists(path)) {
      return not_found(
          fmt::format("{} is missing, which {}/{} names. Copy it there, or build the data again with ingot "
                      "data build",
                      path, folder, kManifestName));
    }
    INGOT_TRY(TokenShard shard, TokenShard::open(path));
    const TokenShardInfo& info = shard.info();
    if (info.tokens != record.tokens || info.documents != record.documents) {
      return does_not_fit(path, fmt::format("it holds {} tokens in {} documents, not {} in {}", info.tokens,
                                            info.documents, record.tokens, record.documents));
    }
    if (info.vocab_size != manifest.vocab_size ||
        info.tokenizer_fingerprint != manifest.tokenizer_fingerprint) {
      return does_not_fit(path, "it was made with another tokenizer");
    }
    shards.push_back(std::move(shard));
  }
  INGOT_TRY(TokenStream stream, TokenStream::join(std::move(shards)));
  if (stream.tokens() != split.tokens || stream.documents() != split.documents) {
    return does_not_fit(folder,
                        fmt::format("its shards hold {} tokens, not {}", stream.tokens(), split.tokens));
  }
  return stream;
}

}  // namespace

Result<TokenStream> TokenStream::open(const std::vector<std::string>& paths) {
  std::vector<TokenShard> shards;
  for (const std::string& path : paths) {
    INGOT_TRY(TokenShard shard, TokenShard::open(path));
    shards.push_back(std::move(shard));
  }
  return join(std::move(shards));
}

Result<TokenStream> TokenStream::join(std::vector<TokenShard> shards) {
  TokenStream stream;
  stream.first_token_.push_back(0);
  stream.first_document_.push_back(0);
  for (const TokenShard& shard : shards) {
    const TokenShardInfo& info = shard.info();
    const TokenShardInfo& front = shards.front().info();
    if (info.vocab_size != front.vocab_size || info.tokenizer_fingerprint != front.tokenizer_fingerprint) {
      return invalid(
          fmt::format("{} and {} were made with different tokenizers; their ids do not mean the same. Build "
                      "both with one tokenizer",
                      shards.front().path(), shard.path()));
    }
    stream.tokens_ += info.tokens;
    stream.documents_ += info.documents;
    stream.text_bytes_ += info.text_bytes;
    stream.first_token_.push_back(stream.tokens_);
    stream.first_document_.push_back(stream.documents_);
  }
  if (!shards.empty()) {
    stream.vocab_size_ = shards.front().info().vocab_size;
    stream.fingerprint_ = shards.front().info().tokenizer_fingerprint;
  }
  stream.shards_ = std::move(shards);
  return stream;
}

int64_t TokenStream::samples(int64_t seq_len) const {
  INGOT_CHECK(seq_len >= 1, "seq_len is {}", seq_len);
  return tokens_ == 0 ? 0 : (tokens_ - 1) / seq_len;
}

size_t TokenStream::shard_of(int64_t position) const {
  const auto after = std::upper_bound(first_token_.begin(), first_token_.end(), position);
  return static_cast<size_t>(after - first_token_.begin()) - 1;
}

Result<void> TokenStream::read(int64_t first, std::span<int32_t> out) const {
  const int64_t count = static_cast<int64_t>(out.size());
  INGOT_CHECK(first >= 0 && count <= tokens_ && first <= tokens_ - count, "tokens {} to {} of a stream of {}",
              first, first + count, tokens_);
  while (!out.empty()) {
    const size_t shard = shard_of(first);
    const int64_t there = first_token_[shard + 1] - first;
    const size_t part = std::min(out.size(), static_cast<size_t>(there));
    INGOT_TRY_VOID(shards_[shard].read(first - first_token_[shard], out.first(part)));
    out = out.subspan(part);
    first += static_cast<int64_t>(part);
  }
  return {};
}

int64_t TokenStream::document_start(int64_t position) const {
  INGOT_CHECK(position >= 0 && position < tokens_, "token {} of a stream of {}", position, tokens_);
  for (size_t shard = shard_of(position) + 1; shard-- > 0;) {
    const std::span<const uint64_t> starts = shards_[shard].document_starts();
    const int64_t within = position - first_token_[shard];
    const auto after = std::upper_bound(starts.begin(), starts.end(), static_cast<uint64_t>(within));
    if (after != starts.begin()) return first_token_[shard] + static_cast<int64_t>(*(after - 1));
  }
  return 0;
}

int64_t TokenStream::document(int64_t index) const {
  INGOT_CHECK(index >= 0 && index < documents_, "document {} of {}", index, documents_);
  const auto after = std::upper_bound(first_document_.begin(), first_document_.end(), index);
  const size_t shard = static_cast<size_t>(after - first_document_.begin()) - 1;
  const size_t within = static_cast<size_t>(index - first_document_[shard]);
  return first_token_[shard] + static_cast<int64_t>(shards_[shard].document_starts()[within]);
}

int64_t TokenStream::document_starts_between(int64_t first, int64_t last, std::span<int64_t> starts) const {
  int64_t found = 0;
  for (size_t shard = shard_of(first); shard < shards_.size() && first_token_[shard] < last; ++shard) {
    const std::span<const uint64_t> there = shards_[shard].document_starts();
    const int64_t base = first_token_[shard];
    auto next = first < base
                    ? there.begin()
                    : std::upper_bound(there.begin(), there.end(), static_cast<uint64_t>(first - base));
    for (; next != there.end() && base + static_cast<int64_t>(*next) < last; ++next, ++found) {
      if (found < static_cast<int64_t>(starts.size())) {
        starts[static_cast<size_t>(found)] = base + static_cast<int64_t>(*next);
      }
    }
  }
  return found;
}

bool is_dataset_folder(const std::string& path) {
  return path_exists(fmt::format("{}/{}", path, kManifestName));
}

Result<Dataset> Dataset::open(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kManifestName);
  if (!path_exists(path)) {
    return not_found(
        fmt::format("{} is not a folder of built data: it has no {}. Make one with ingot data build", folder,
                    kManifestName));
  }
  INGOT_TRY(const std::string text, read_file(path));
  Dataset dataset;
  dataset.folder_ = folder;
  INGOT_TRY(dataset.manifest_, parse_manifest(text, path));
  INGOT_TRY(dataset.train_, open_split(folder, dataset.manifest_.train, dataset.manifest_));
  INGOT_TRY(dataset.validation_, open_split(folder, dataset.manifest_.validation, dataset.manifest_));
  return dataset;
}

std::string Dataset::tokenizer_path() const { return folder_ + "/tokenizer.json"; }

Result<void> Dataset::check_vocab(int64_t model_vocab) const {
  if (manifest_.vocab_size <= model_vocab) return {};
  return invalid(
      fmt::format("The data in {} has a vocabulary of {} ({}); the model has {}. Give the model at least as "
                  "many (model.vocab_size = {}), or build the data with the model's own tokenizer",
                  folder_, format_integer(manifest_.vocab_size), manifest_.tokenizer_name,
                  format_integer(model_vocab), manifest_.vocab_size));
}

Result<void> Dataset::check_seq_len(int64_t seq_len) const {
  if (train_.samples(seq_len) >= 1) return {};
  return invalid(
      fmt::format("The data in {} has {} for training; a sample of data.seq_len = {} needs {}. Give "
                  "more text, or a shorter data.seq_len",
                  folder_, counted(train_.tokens(), "token"), seq_len, format_integer(seq_len + 1)));
}

}  // namespace ingot::data
