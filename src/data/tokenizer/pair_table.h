#pragma once
// A read-mostly table from a pair of symbols to the rank of its merge. Open addressing in one u64 a slot:
// left 20 bits, right 20 bits, rank 24 bits; a bitmap before it answers most of the many look-ups that find
// nothing.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ingot::data {

class PairTable {
 public:
  static constexpr uint32_t kNone = 0xffffff;       // ranks are below
  static constexpr uint32_t kMaxSymbols = 0xfffff;  // symbols are below

  explicit PairTable(size_t pairs);  // how many will be inserted

  // False, changing nothing, when the pair is there already.
  bool insert(uint32_t left, uint32_t right, uint32_t rank);

  uint32_t find(uint32_t left, uint32_t right) const {
    const uint64_t key = key_of(left, right);
    const uint64_t hash = hash_of(key);
    const uint64_t bit = hash >> filter_shift_;
    if (!(filter_[bit >> 6] >> (bit & 63) & 1)) return kNone;
    for (size_t i = hash >> shift_;; i = (i + 1) & mask_) {
      const uint64_t slot = slots_[i];
      if (slot >> 24 == key) return static_cast<uint32_t>(slot & kNone);
      if (slot == kEmpty) return kNone;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 20 | right; }
  static uint64_t hash_of(uint64_t key) { return key * 0x9e3779b97f4a7c15; }  // its top bits are used

  std::vector<uint64_t> slots_;
  std::vector<uint64_t> filter_;
  uint64_t mask_;
  int shift_;
  int filter_shift_;
  size_t used_ = 0;
};

}  // namespace ingot::data
