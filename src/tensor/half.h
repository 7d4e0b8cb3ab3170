#pragma once
// Scalar conversions of the 16-bit types, given and taken as their bits. Both directions round to nearest
// even and keep NaN. Vectorised conversions belong to the backends.

#include <bit>
#include <cstdint>

namespace ingot::tensor {

inline float float_of_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t bf16_of_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float float_of_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU, fraction = bits & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

inline uint16_t f16_of_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U, magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // 65,520 and above: infinity
  if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits of the sum.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace ingot::tensor
