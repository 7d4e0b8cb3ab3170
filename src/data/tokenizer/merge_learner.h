#pragma once
// The inner loop of BPE training: joins the most frequent pair of neighbours in all words, again and again.
// Keeps an index from a pair to the words that hold it, so that a merge costs as much as it changes.
//
// A pair comes to be only when the newer of its two symbols is made; afterwards its count only falls. So each
// pair's list of words is written once, and a heap with counts of the past is right when an entry is put back
// with the count of now.

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "data/tokenizer/bpe_merge.h"
#include "data/tokenizer/word_counts.h"

namespace ingot::data {

class MergeLearner {
 public:
  // Symbols 0..255 are the bytes. Pairs that occur less than `min_frequency` times are never joined, nor are
  // those that would give more than `max_token_bytes`.
  MergeLearner(const WordCounts& words, int64_t min_frequency, int32_t max_token_bytes);

  // Makes the next symbol, numbered from 256, of the pair with the highest count, then the lowest left
  // symbol, then the lowest right one; counts are of all adjacent pairs, overlapping ones too. Nothing when
  // no pair is left.
  std::optional<Merge> next();

 private:
  struct Pair {
    uint32_t left = 0;
    uint32_t right = 0;
    int64_t count = 0;
    size_t words_begin = 0;  // in lists_
    uint32_t words = 0;
    uint32_t last_word = kNoWord;  // while the list is being gathered
  };
  struct Word {
    size_t begin = 0;  // in symbols_
    uint32_t symbols = 0;
    int64_t count = 0;
  };
  struct Candidate {
    int64_t count;
    uint32_t left, right, pair;
    bool operator<(const Candidate& other) const;  // a later one is less
  };
  struct Occurrence {
    uint32_t pair, word;
  };
  static constexpr uint32_t kNoWord = 0xffffffff;
  static constexpr uint32_t kNoPair = 0xffffffff;

  uint32_t find_pair(uint32_t left, uint32_t right) const;
  uint32_t find_or_add_pair(uint32_t left, uint32_t right);
  void grow_pair_slots();
  void gain(uint32_t left, uint32_t right, uint32_t word);
  void lose(uint32_t left, uint32_t right, int64_t count);
  void merge_in_word(uint32_t word, const Merge& merge);
  void keep_lists(size_t first_new_pair);

  int64_t min_frequency_;
  int32_t max_token_bytes_;
  std::vector<uint32_t> symbols_;  // of all words, each in its place, shrinking
  std::vector<Word> words_;
  std::vector<Pair> pairs_;
  std::vector<uint32_t> pair_slots_;  // open addressing by symbols
  std::vector<uint32_t> lists_;       // words of pairs
  std::vector<Occurrence> gathered_;  // of pairs that are new in this merge
  std::vector<int32_t> token_bytes_;  // by symbol
  std::vector<uint32_t> old_symbols_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace ingot::data
