#pragma once
// Encodes pieces of text with a byte-pair model, remembering the ids of recent pieces. One object per thread;
// the caches are per thread and change no id. Not the cutting into pieces (scanner.h, split_pattern.h).

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/border_filter.h"
#include "data/tokenizer/bpe_merge.h"

namespace ingot::data {

// What is shared between threads: merges, and the tokens that a whole piece may be.
class BpeModel {
 public:
  // `tokens` by id, empty for holes; ids below PairTable::kMaxSymbols. With `whole_pieces` a piece that is a
  // token is that token whatever the merges say (tiktoken, and ignore_merges of Hugging Face).
  BpeModel(std::vector<std::string> tokens, std::vector<Merge> merges, bool whole_pieces);

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<Merge>& merges() const { return merges_; }
  bool whole_pieces() const { return whole_pieces_; }
  const BorderFilter& borders() const { return borders_; }

  // Writes the ids of the piece of `n` >= 1 bytes to out[n]; returns the end of what it wrote.
  uint32_t* encode_piece(const char* p, size_t n, uint32_t* out, MergeScratch& scratch) const;

  // The ids of the 256 bytes; missing[] lists bytes without a token.
  static std::array<uint32_t, 256> byte_ids(std::span<const std::string> tokens,
                                            std::vector<uint8_t>& missing);

 private:
  static constexpr uint32_t kNoToken = 0xffffffff;
  static constexpr uint64_t kFreeSlot = ~uint64_t{0};
  static constexpr uint64_t kTagMask = ~uint64_t{0} << 32;
  uint32_t find_whole(const char* p, size_t n) const;

  std::vector<std::string> tokens_;
  std::vector<Merge> merges_;
  bool whole_pieces_;
  MergeTables tables_;
  BorderFilter borders_;
  std::vector<uint64_t> whole_table_;  // open addressing: upper half of the hash of the bytes, and the id
  size_t longest_ = 0;
};

class BpePieceEncoder {
 public:
  explicit BpePieceEncoder(const BpeModel& model);
  ~BpePieceEncoder();
  BpePieceEncoder(const BpePieceEncoder&) = delete;
  BpePieceEncoder& operator=(const BpePieceEncoder&) = delete;

  static constexpr size_t kBatch = 128;  // pieces that are worth handing over at once

  // Appends the ids of consecutive pieces, the first from `begin`, each to ends[i]; [begin, text_end) is
  // readable.
  void encode(const char* begin, std::span<const char* const> ends, const char* text_end,
              std::vector<int32_t>& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::data
