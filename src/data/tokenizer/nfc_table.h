#pragma once
// Generated data of nfc.cc: canonical combining classes and canonical decompositions, without Hangul.

#include <cstddef>
#include <cstdint>

namespace ingot::data {

struct Decomposition {
  uint32_t code;
  uint32_t first;
  uint32_t second;  // 0: a single character
  bool composes;    // first and second compose to code again
};

extern const uint32_t kCombiningRanges[];  // first code point << 8 | class, ascending
extern const size_t kCombiningRangeCount;
extern const Decomposition kDecompositions[];  // ascending by code
extern const size_t kDecompositionCount;

}  // namespace ingot::data
