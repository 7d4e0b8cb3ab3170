#pragma once
// How often each distinct piece of text ("word") occurs; the input of BPE training.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::data {

class WordCounts {
 public:
  WordCounts();

  void add(std::string_view word, int64_t count);
  void add_all(const WordCounts& other);

  size_t size() const { return entries_.size(); }
  std::string_view word(size_t i) const { return {arena_.data() + entries_[i].begin, entries_[i].bytes}; }
  int64_t count(size_t i) const { return entries_[i].count; }
  size_t total_bytes() const { return arena_.size(); }  // of the distinct words

 private:
  struct Entry {
    uint64_t hash;
    size_t begin;  // in arena_
    size_t bytes;
    int64_t count;
  };
  void grow();

  static constexpr uint32_t kFree = 0xffffffff;
  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // entry by hash, open addressing
};

}  // namespace ingot::data
