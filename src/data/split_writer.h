#pragma once
// Writes the tokens of one split as shards of bounded size, and decides which split a document belongs to.
// Internal to the data set builder.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "data/token_shard.h"

namespace ingot::data {

class SplitWriter {
 public:
  // Files are <folder>/<split>-00000.tok and on. `text_bytes` are the bytes of text that each id stands for;
  // they must outlive the writer.
  SplitWriter(std::string folder, std::string split, const TokenShardOptions& options, int64_t shard_bytes,
              std::span<const uint32_t> text_bytes);
  void begin_document();
  Result<void> append(std::span<const int32_t> ids);
  int64_t tokens() const { return record_.tokens; }
  Result<SplitRecord> finish();

 private:
  Result<void> open_shard();
  Result<void> close_shard();

  std::string folder_;
  std::string split_;
  TokenShardOptions options_;
  int64_t shard_bytes_;
  int64_t token_bytes_;
  std::span<const uint32_t> text_bytes_;
  bool document_pending_ = false;
  std::optional<TokenShardWriter> writer_;
  SplitRecord record_;
};

// Sends each document to train or validation. Whether the corpus is one document, and where its last part
// begins, is known only at its end or at the second document. So of the first document what may yet be the
// last part waits, all of it when by hash it would be for validation: in memory, and from `held_tokens` on in
// a shard of its own.
class SplitRouter {
 public:
  SplitRouter(SplitWriter& train, SplitWriter& validation, double validation_fraction, uint64_t seed,
              std::string spool_path, int64_t held_tokens, const TokenShardOptions& options);
  Result<void> begin_document();
  Result<void> append(std::span<const int32_t> ids);
  // Returns the rule that was used, as dataset.json names it.
  Result<std::string> finish();
  int64_t documents() const { return documents_; }

 private:
  SplitWriter& split_of(int64_t document);
  // How many of the first document's tokens are for training if it is the only document.
  int64_t kept_of_one() const;
  Result<void> hold(std::span<const int32_t> ids);
  // What waits of the first document, up to its token `end`, to a split.
  Result<void> release(int64_t end, SplitWriter& split);
  Result<void> close_spool();
  Result<void> release_first_document();
  Result<void> cut_only_document();

  SplitWriter& train_;
  SplitWriter& validation_;
  double validation_fraction_;
  uint64_t seed_;
  std::string spool_path_;
  int64_t held_limit_;
  TokenShardOptions options_;
  // Of the first document while it is the only one. Tokens from released_ on are in held_, from held_begin_,
  // or in the spool, which begins with token spool_begin_.
  bool holding_ = false;
  std::vector<int32_t> held_;
  size_t held_begin_ = 0;
  std::optional<TokenShardWriter> spool_;
  std::optional<TokenShard> spooled_;
  int64_t spool_begin_ = 0;
  int64_t first_tokens_ = 0;
  int64_t released_ = 0;
  SplitWriter* current_ = nullptr;
  int64_t documents_ = 0;
};

}  // namespace ingot::data
