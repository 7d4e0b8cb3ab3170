#pragma once
// Where a long piece of three-byte characters (most of Chinese, Japanese and Korean) may be cut without
// changing its merges: at a border between characters that the bytes of no token can span. Such pieces are
// whole clauses, nearly all different; cut, their parts are short and mostly known to the encoder's cache.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::data {

class BorderFilter {
 public:
  explicit BorderFilter(std::span<const std::string> tokens);  // every token that merging or look-up can give

  // A well-formed three-byte character begins at p (three bytes must be readable).
  static bool is_wide(const char* p) {
    const auto byte = [p](int i) { return uint32_t{static_cast<uint8_t>(p[i])}; };
    return (byte(0) & 0xf0) == 0xe0 && (byte(1) & 0xc0) == 0x80 && (byte(2) & 0xc0) == 0x80;
  }

  // May the text be cut at p, with three-byte characters on both sides? False also where the hash cannot
  // tell.
  bool may_cut(const char* p) const;

 private:
  static constexpr int kBits = 20;
  static uint64_t hash(uint32_t before, uint32_t before_bytes, uint32_t after, uint32_t after_bytes);
  static bool test(const std::vector<uint64_t>& bits, uint64_t hash) {
    return bits[hash >> (64 - kBits) >> 6] >> (hash >> (64 - kBits) & 63) & 1;
  }

  std::vector<uint64_t> whole_;    // borders that a token covers with whole characters on both sides
  std::vector<uint64_t> partial_;  // borders that a token covers with less on one side or both
  uint32_t partial_kinds_ = 0;     // bit before_bytes * 4 + after_bytes: which of those occur
};

}  // namespace ingot::data
