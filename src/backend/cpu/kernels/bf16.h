#pragma once
// A type for the bits of one bfloat16 and its scalar conversions, those of tensor/half.h; the vector ones are
// in bf16-inl.h (Highway's own truncate and lose NaN).

#include <cstdint>

#include "tensor/half.h"

namespace ingot::backend::cpu {

// Storage of one bfloat16: the upper half of a float's bits.
struct Bf16 {
  uint16_t bits;
};

inline float to_f32(Bf16 value) { return tensor::float_of_bf16(value.bits); }
inline float to_f32(float value) { return value; }

inline Bf16 to_bf16(float value) { return {tensor::bf16_of_float(value)}; }

}  // namespace ingot::backend::cpu
