#include "data/tokenizer/merge_learner.h"

#include <algorithm>

#include "base/check.h"

namespace ingot::data {
namespace {

constexpr uint32_t kBytes = 256;

size_t hash_pair(uint32_t left, uint32_t right) {
  const uint64_t key = (uint64_t{left} << 32 | right) * 0x9e3779b97f4a7c15;
  return static_cast<size_t>(key ^ key >> 32);
}

}  // namespace

bool MergeLearner::Candidate::operator<(const Candidate& other) const {
  if (count != other.count) return count < other.count;
  if (left != other.left) return left > other.left;
  return right > other.right;
}

MergeLearner::MergeLearner(const WordCounts& words, int64_t min_frequency, int32_t max_token_bytes)
    : min_frequency_(min_frequency),
      max_token_bytes_(max_token_bytes),
      pair_slots_(size_t{1} << 16, kNoPair),
      token_bytes_(kBytes, 1) {
  symbols_.reserve(words.total_bytes());
  words_.reserve(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view text = words.word(i);
    if (text.size() < 2) continue;
    INGOT_CHECK(text.size() < kNoWord, "a piece of {} bytes", text.size());
    const uint32_t word = static_cast<uint32_t>(words_.size());
    words_.push_back({symbols_.size(), static_cast<uint32_t>(text.size()), words.count(i)});
    for (const char byte : text) symbols_.push_back(static_cast<uint8_t>(byte));
    const uint32_t* symbols = symbols_.data() + words_.back().begin;
    for (uint32_t k = 0; k + 1 < text.size(); ++k) gain(symbols[k], symbols[k + 1], word);
  }
  keep_lists(0);
}

uint32_t MergeLearner::find_pair(uint32_t left, uint32_t right) const {
  const size_t mask = pair_slots_.size() - 1;
  for (size_t i = hash_pair(left, right) & mask;; i = (i + 1) & mask) {
    const uint32_t pair = pair_slots_[i];
    if (pair == kNoPair || (pairs_[pair].left == left && pairs_[pair].right == right)) return pair;
  }
}

uint32_t MergeLearner::find_or_add_pair(uint32_t left, uint32_t right) {
  const size_t mask = pair_slots_.size() - 1;
  size_t i = hash_pair(left, right) & mask;
  for (; pair_slots_[i] != kNoPair; i = (i + 1) & mask) {
    const Pair& pair = pairs_[pair_slots_[i]];
    if (pair.left == left && pair.right == right) return pair_slots_[i];
  }
  const uint32_t added = static_cast<uint32_t>(pairs_.size());
  INGOT_CHECK(added != kNoPair, "more than {} pairs", pairs_.size());
  pair_slots_[i] = added;
  pairs_.push_back({left, right, 0, 0, 0, kNoWord});
  if (pairs_.size() * 2 > pair_slots_.size()) grow_pair_slots();
  return added;
}

void MergeLearner::grow_pair_slots() {
  pair_slots_.assign(pair_slots_.size() * 2, kNoPair);
  const size_t mask = pair_slots_.size() - 1;
  for (uint32_t pair = 0; pair < pairs_.size(); ++pair) {
    size_t i = hash_pair(pairs_[pair].left, pairs_[pair].right) & mask;
    while (pair_slots_[i] != kNoPair) i = (i + 1) & mask;
    pair_slots_[i] = pair;
  }
}

void MergeLearner::gain(uint32_t left, uint32_t right, uint32_t word) {
  const uint32_t index = find_or_add_pair(left, right);
  Pair& pair = pairs_[index];
  pair.count += words_[word].count;
  if (pair.last_word == word) return;
  pair.last_word = word;
  ++pair.words;
  gathered_.push_back({index, word});
}

void MergeLearner::lose(uint32_t left, uint32_t right, int64_t count) {
  const uint32_t index = find_pair(left, right);
  INGOT_CHECK(index != kNoPair, "the pair {} {} was never counted", left, right);
  pairs_[index].count -= count;
}

// Turns what was gathered into a list for each new pair that can still be joined, and makes it a candidate.
void MergeLearner::keep_lists(size_t first_new_pair) {
  const auto keeps = [this](const Pair& pair) { return pair.count >= min_frequency_; };
  size_t end = lists_.size();
  for (size_t i = first_new_pair; i < pairs_.size(); ++i) {
    Pair& pair = pairs_[i];
    if (!keeps(pair)) continue;
    pair.words_begin = end;
    end += pair.words;
    pair.words = 0;
    candidates_.push({pair.count, pair.left, pair.right, static_cast<uint32_t>(i)});
  }
  lists_.resize(end);
  for (const Occurrence& occurrence : gathered_) {
    Pair& pair = pairs_[occurrence.pair];
    if (keeps(pair)) lists_[pair.words_begin + pair.words++] = occurrence.word;
  }
  gathered_.clear();
}

// A pair of the old word is lost when a merge took one of its symbols, and one of the new word is gained when
// it has the new symbol: with overlaps ("aaa", "abab") this stays the count of the pairs that are there.
void MergeLearner::merge_in_word(uint32_t index, const Merge& merge) {
  Word& word = words_[index];
  uint32_t* const symbols = symbols_.data() + word.begin;
  old_symbols_.assign(symbols, symbols + word.symbols);
  const std::vector<uint32_t>& old = old_symbols_;
  uint32_t kept = 0;
  uint32_t lost_up_to = 0;  // old pairs that begin before this are handled
  for (uint32_t i = 0; i < old.size();) {
    if (i + 1 == old.size() || old[i] != merge.left || old[i + 1] != merge.right) {
      symbols[kept++] = old[i++];
      continue;
    }
    for (uint32_t k = std::max(lost_up_to, i == 0 ? 0 : i - 1); k <= i + 1 && k + 1 < old.size(); ++k) {
      lose(old[k], old[k + 1], word.count);
      lost_up_to = k + 1;
    }
    symbols[kept++] = merge.product;
    i += 2;
  }
  if (kept == word.symbols) return;
  word.symbols = kept;
  for (uint32_t k = 0; k + 1 < kept; ++k) {
    if (symbols[k] == merge.product || symbols[k + 1] == merge.product)
      gain(symbols[k], symbols[k + 1], index);
  }
}

std::optional<Merge> MergeLearner::next() {
  while (!candidates_.empty()) {
    const Candidate top = candidates_.top();
    candidates_.pop();
    const Pair pair = pairs_[top.pair];
    if (pair.count < min_frequency_) continue;
    if (pair.count != top.count) {
      candidates_.push({pair.count, top.left, top.right, top.pair});
      continue;
    }
    const int32_t bytes = token_bytes_[pair.left] + token_bytes_[pair.right];
    if (bytes > max_token_bytes_) continue;
    const Merge merge{pair.left, pair.right, static_cast<uint32_t>(token_bytes_.size())};
    token_bytes_.push_back(bytes);
    const size_t first_new_pair = pairs_.size();
    for (uint32_t i = 0; i < pair.words; ++i) merge_in_word(lists_[pair.words_begin + i], merge);
    keep_lists(first_new_pair);
    return merge;
  }
  return std::nullopt;
}

}  // namespace ingot::data
