#pragma once
// One file of tokens: ids in checksummed blocks, where documents start, and a footer;
// docs/formats/token-shard.md is the layout. Written once from front to back, read by a mapping. Not a data
// set: dataset.h joins shards. Adding a field: take it from the reserved bytes of the footer and raise
// kTokenShardVersion.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::data {

inline constexpr uint32_t kTokenShardVersion = 1;

struct TokenShardInfo {
  int64_t tokens = 0;
  int64_t documents = 0;   // that begin in this shard
  int64_t text_bytes = 0;  // of the text that the tokens stand for, special tokens left out
  int64_t vocab_size = 0;  // ids are below it
  uint64_t tokenizer_fingerprint = 0;
  int token_bytes = 2;  // 2 where vocab_size <= 65,536, else 4
  int64_t block_bytes = int64_t{4} << 20;
  int64_t blocks = 0;
};

struct TokenShardOptions {
  int64_t vocab_size = 0;
  uint64_t tokenizer_fingerprint = 0;
  int64_t block_bytes = int64_t{4} << 20;  // a multiple of 4,096
};

// Writes to `path` by way of AtomicFile: nothing is there before finish().
class TokenShardWriter {
 public:
  static Result<TokenShardWriter> create(const std::string& path, const TokenShardOptions& options);
  TokenShardWriter(TokenShardWriter&&) noexcept;
  TokenShardWriter& operator=(TokenShardWriter&&) noexcept;
  ~TokenShardWriter();

  void begin_document();  // the next token is its first
  // An id outside [0, vocab_size) is a check: the caller's tokenizer made it.
  Result<void> append(std::span<const int32_t> ids);
  void add_text_bytes(int64_t bytes);
  int64_t tokens() const;
  int64_t data_bytes() const;  // of tokens so far
  // Whole file on disk afterwards; returns its XXH3-64.
  Result<uint64_t> finish();

 private:
  TokenShardWriter();
  struct State;
  std::unique_ptr<State> state_;
};

// Reads; const members may be called from any thread.
class TokenShard {
 public:
  // Checks header, footer, tables and sizes (not the blocks). kCorrupt for a torn or foreign file, with the
  // reason.
  static Result<TokenShard> open(const std::string& path);
  // The same over bytes in memory, which must outlive the shard; `name` stands for the path in messages.
  static Result<TokenShard> parse(std::span<const std::byte> bytes, std::string name);
  TokenShard(TokenShard&&) noexcept;
  TokenShard& operator=(TokenShard&&) noexcept;
  ~TokenShard();

  const std::string& path() const;
  const TokenShardInfo& info() const;
  std::span<const uint64_t> document_starts() const;  // token positions, ascending

  // Tokens [first, first + out.size()), which must lie in the shard. A block is checked at its first touch
  // and the verdict kept; kCorrupt names shard, block and bytes, or the id that is not below vocab_size.
  Result<void> read(int64_t first, std::span<int32_t> out) const;

  Result<void> verify_block(int64_t block) const;  // as read() does, from the bytes on disk
  std::vector<Error> verify() const;               // every block; empty when all are well

 private:
  TokenShard();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::data
