#pragma once
// A folder of token shards as training reads it: dataset.json, a train and a validation stream. Sample i of a
// stream is tokens [i T, i T + T], the last a label only. Not an order (sampler.h), not a batch (batch.h).

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/token_shard.h"

namespace ingot::data {

inline constexpr int64_t kDatasetFormatVersion = 1;

struct ShardRecord {
  std::string file;  // name in the folder
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t file_bytes = 0;
  uint64_t hash = 0;  // XXH3-64 of the file
};

struct SplitRecord {
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t text_bytes = 0;  // of text: loss / ln 2 * tokens / text_bytes is bits per byte
  std::vector<ShardRecord> shards;
};

// dataset.json.
struct DatasetManifest {
  int64_t format_version = kDatasetFormatVersion;
  std::string tokenizer_name;  // as it was asked for; the folder holds a copy, tokenizer.json
  uint64_t tokenizer_fingerprint = 0;
  int64_t vocab_size = 0;
  uint64_t seed = 0;
  std::string validation_rule;  // "none", "last part of one document", "documents by hash", "own sources"
  double validation_fraction = 0;
  std::string text_field;
  bool bos = false;
  int64_t source_files = 0;
  int64_t skipped_lines = 0;
  std::vector<std::string> warnings;  // sentences of the build: skipped lines, an empty validation part, ...
  SplitRecord train;
  SplitRecord validation;
};

std::string to_json(const DatasetManifest& manifest);
Result<DatasetManifest> parse_manifest(std::string_view json, const std::string& name);

// Several shards as one run of tokens. Const members may be called from any thread.
class TokenStream {
 public:
  TokenStream() = default;  // empty
  // In the order given. All must have one vocabulary and fingerprint.
  static Result<TokenStream> open(const std::vector<std::string>& paths);
  static Result<TokenStream> join(std::vector<TokenShard> shards);

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }
  int64_t text_bytes() const { return text_bytes_; }
  int64_t vocab_size() const { return vocab_size_; }
  uint64_t tokenizer_fingerprint() const { return fingerprint_; }
  // Samples of seq_len + 1 tokens that overlap by one: (tokens - 1) / seq_len.
  int64_t samples(int64_t seq_len) const;

  // Tokens [first, first + out.size()), which must lie in the stream.
  Result<void> read(int64_t first, std::span<int32_t> out) const;

  // The start of the document that holds `position`: the greatest start <= position, 0 when there is none.
  int64_t document_start(int64_t position) const;
  // Start of document `index`, in [0, documents()).
  int64_t document(int64_t index) const;
  // Adds the starts in (first, last) to `starts`, ascending, at most its size; returns how many there are.
  int64_t document_starts_between(int64_t first, int64_t last, std::span<int64_t> starts) const;

  const std::vector<TokenShard>& shards() const { return shards_; }

 private:
  size_t shard_of(int64_t position) const;
  std::vector<TokenShard> shards_;
  std::vector<int64_t> first_token_;  // of each shard, and the end
  std::vector<int64_t> first_document_;
  int64_t tokens_ = 0;
  int64_t documents_ = 0;
  int64_t text_bytes_ = 0;
  int64_t vocab_size_ = 0;
  uint64_t fingerprint_ = 0;
};

class Dataset {
 public:
  // kNotFound where there is no dataset.json, kCorrupt where shards do not fit it.
  static Result<Dataset> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const DatasetManifest& manifest() const { return manifest_; }
  const TokenStream& train() const { return train_; }
  TokenStream take_train() && { return std::move(train_); }
  void set_validation(TokenStream stream) { validation_ = std::move(stream); }  // of the same tokenizer
  const TokenStream& validation() const { return validation_; }                 // may be empty
  std::string tokenizer_path() const;  // tokenizer.json in the folder

  // A sentence when the model's vocabulary is smaller than the data's (ids would have no embedding).
  Result<void> check_vocab(int64_t model_vocab) const;
  // A sentence when the train stream has not one sample of seq_len.
  Result<void> check_seq_len(int64_t seq_len) const;

 private:
  std::string folder_;
  DatasetManifest manifest_;
  TokenStream train_;
  TokenStream validation_;
};

bool is_dataset_folder(const std::string& path);  // holds a dataset.json

}  // namespace ingot::data
