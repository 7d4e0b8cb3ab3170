#include "data/tokenizer/word_counts.h"

#include "base/check.h"
#include "base/hash.h"

namespace ingot::data {

WordCounts::WordCounts() : slots_(size_t{1} << 12, kFree) {}

void WordCounts::add(std::string_view word, int64_t count) {
  const uint64_t hash = hash64(word);
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i] != kFree; i = (i + 1) & mask) {
    Entry& entry = entries_[slots_[i]];
    if (entry.hash == hash && std::string_view(arena_.data() + entry.begin, entry.bytes) == word) {
      entry.count += count;
      return;
    }
  }
  INGOT_CHECK(entries_.size() < kFree, "more than {} distinct words", entries_.size());
  slots_[i] = static_cast<uint32_t>(entries_.size());
  entries_.push_back({hash, arena_.size(), word.size(), count});
  arena_ += word;
  if (entries_.size() * 2 > slots_.size()) grow();
}

void WordCounts::add_all(const WordCounts& other) {
  for (size_t i = 0; i < other.size(); ++i) add(other.word(i), other.count(i));
}

void WordCounts::grow() {
  slots_.assign(slots_.size() * 2, kFree);
  const size_t mask = slots_.size() - 1;
  for (uint32_t entry = 0; entry < entries_.size(); ++entry) {
    size_t i = entries_[entry].hash & mask;
    while (slots_[i] != kFree) i = (i + 1) & mask;
    slots_[i] = entry;
  }
}

}  // namespace ingot::data
