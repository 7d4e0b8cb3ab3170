#include "data/tokenizer/pair_table.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ingot::data {

PairTable::PairTable(size_t pairs) {
  const int bits = std::max(8, static_cast<int>(std::bit_width(pairs * 2)));
  const int filter_bits = bits + 3;
  slots_.assign(size_t{1} << bits, kEmpty);
  filter_.assign(size_t{1} << (filter_bits - 6), 0);
  mask_ = slots_.size() - 1;
  shift_ = 64 - bits;
  filter_shift_ = 64 - filter_bits;
}

bool PairTable::insert(uint32_t left, uint32_t right, uint32_t rank) {
  INGOT_CHECK(left < kMaxSymbols && right < kMaxSymbols && rank < kNone, "pair {} {} of rank {}", left, right,
              rank);
  INGOT_CHECK((used_ + 1) * 4 <= slots_.size() * 3, "{} pairs in {} slots", used_, slots_.size());
  const uint64_t key = key_of(left, right);
  const uint64_t hash = hash_of(key);
  size_t i = hash >> shift_;
  for (; slots_[i] != kEmpty; i = (i + 1) & mask_) {
    if (slots_[i] >> 24 == key) return false;
  }
  slots_[i] = key << 24 | rank;
  const uint64_t bit = hash >> filter_shift_;
  filter_[bit >> 6] |= uint64_t{1} << (bit & 63);
  ++used_;
  return true;
}

}  // namespace ingot::data
