#include "data/tokenizer/border_filter.h"

#include <algorithm>

namespace ingot::data {
namespace {

constexpr uint32_t kWide = 3;

uint32_t load(const char* p, uint32_t bytes) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(p[i]);
  return value;
}

}  // namespace

uint64_t BorderFilter::hash(uint32_t before, uint32_t before_bytes, uint32_t after, uint32_t after_bytes) {
  const uint64_t left = (uint64_t{before} * 4 + before_bytes) * 0x9e3779b97f4a7c15;
  const uint64_t right = (uint64_t{after} * 4 + after_bytes) * 0xc2b2ae3d27d4eb4f;
  return (left ^ right) * 0xd6e8feb86659fd93;
}

BorderFilter::BorderFilter(std::span<const std::string> tokens)
    : whole_((size_t{1} << kBits) / 64), partial_((size_t{1} << kBits) / 64) {
  const auto set = [](std::vector<uint64_t>& bits, uint64_t h) {
    const uint64_t bit = h >> (64 - kBits);
    bits[bit >> 6] |= uint64_t{1} << (bit & 63);
  };
  for (const std::string& token : tokens) {
    const uint32_t size = static_cast<uint32_t>(token.size());
    for (uint32_t i = 1; i < size; ++i) {
      const bool begins_wide = (static_cast<uint8_t>(token[i]) & 0xf0) == 0xe0;
      const bool follows_continuation = (static_cast<uint8_t>(token[i - 1]) & 0xc0) == 0x80;
      if (!begins_wide || !follows_continuation) continue;
      const uint32_t before = std::min(kWide, i);
      const uint32_t after = std::min(kWide, size - i);
      const uint64_t h = hash(load(&token[i - before], before), before, load(&token[i], after), after);
      if (before == kWide && after == kWide) {
        set(whole_, h);
      } else {
        set(partial_, h);
        partial_kinds_ |= 1u << (before * 4 + after);
      }
    }
  }
}

bool BorderFilter::may_cut(const char* p) const {
  const uint32_t before = load(p - kWide, kWide);
  const uint32_t after = load(p, kWide);
  if (test(whole_, hash(before, kWide, after, kWide))) return false;
  for (uint32_t left = 1; left <= kWide; ++left) {
    for (uint32_t right = 1; right <= kWide; ++right) {
      if (!(partial_kinds_ >> (left * 4 + right) & 1)) continue;
      const uint32_t left_bytes = before & ((1u << 8 * left) - 1);
      if (test(partial_, hash(left_bytes, left, after >> (24 - 8 * right), right))) return false;
    }
  }
  return true;
}

}  // namespace ingot::data
