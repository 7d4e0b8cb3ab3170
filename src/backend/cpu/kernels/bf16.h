#pragma once
// The scalar bfloat16 conversions; the vector ones are in bf16-inl.h. Both round to nearest even and keep
// NaN. No other file converts (Highway's own conversions truncate and lose NaN).

#include <bit>
#include <cstdint>

namespace ingot::backend::cpu {

// Storage of one bfloat16: the upper half of a float's bits.
struct Bf16 {
  uint16_t bits;
};

inline float to_f32(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
inline float to_f32(float value) { return value; }

inline Bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace ingot::backend::cpu
