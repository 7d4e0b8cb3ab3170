#pragma once
// Byte-pair merging of one piece of text: from byte symbols, always the adjacent pair of lowest rank, of
// equals the leftmost. Knows no caches (bpe_encoder.h) and no patterns. Time is n log n in the length of the
// piece.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer/merge_queue.h"
#include "data/tokenizer/pair_table.h"

namespace ingot::data {

// A merge's rank is its index in the list; several merges may make the same token.
struct Merge {
  uint32_t left = 0;
  uint32_t right = 0;
  uint32_t product = 0;
};

class MergeTables {
 public:
  // `byte_ids` are the symbols of the 256 bytes. A pair that occurs twice is a check: parsers refuse it.
  MergeTables(const std::array<uint32_t, 256>& byte_ids, std::span<const Merge> merges);

  uint32_t byte_id(uint8_t byte) const { return byte_ids_[byte]; }
  uint32_t rank(uint32_t left, uint32_t right) const { return pairs_.find(left, right); }
  uint32_t byte_pair_rank(uint8_t left, uint8_t right) const {
    return byte_pairs_[size_t{left} << 8 | right];
  }
  uint32_t product(uint32_t rank) const {
    return products_.empty() ? rank + product_offset_ : products_[rank];
  }

  // Adds a merge whose rank is its product's id, for split_ranks only; update_byte_pairs afterwards.
  void add_ranked(const Merge& merge) { pairs_.insert(merge.left, merge.right, merge.product); }
  void update_byte_pairs();

 private:
  friend std::vector<Merge> split_ranks(std::span<const std::string>, const std::array<uint32_t, 256>&);
  MergeTables(const std::array<uint32_t, 256>& byte_ids, size_t pairs);

  std::array<uint32_t, 256> byte_ids_;
  PairTable pairs_;
  std::vector<uint32_t> byte_pairs_;  // [left << 8 | right]
  std::vector<uint32_t> products_;    // by rank; empty when product = rank + offset
  uint32_t product_offset_ = 0;
};

// Buffers of the merging of long pieces, to be used again.
struct MergeScratch {
  struct Node {
    uint32_t symbol;
    uint32_t next;  // positions
    uint32_t previous;
    uint32_t rank;  // of the pair with the next symbol
  };
  std::vector<Node> nodes;
  MergeQueue queue;
};

// Writes the symbols of the `n` >= 1 bytes at p to out[n] and returns the end of what it wrote.
uint32_t* merge_piece(const MergeTables& tables, const char* p, size_t n, uint32_t* out,
                      MergeScratch& scratch);

// The merges behind a file of ranks (.tiktoken), in rank order: of each token the last pair that merging its
// bytes joins. `tokens` by rank, empty for holes. A token that merging never makes has none.
//
// These pairs are enough. Rank files merge by the rank of the joined bytes, so any split of a token would do;
// but when two neighbours join into a token, no merge has crossed the borders of its bytes, so the merges
// inside were those of the bytes alone, and ended in one pair only.
std::vector<Merge> split_ranks(std::span<const std::string> tokens,
                               const std::array<uint32_t, 256>& byte_ids);

}  // namespace ingot::data
