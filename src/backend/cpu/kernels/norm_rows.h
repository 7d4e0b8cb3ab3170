#pragma once
// Inside of norm.h: rows of one norm. Types: bit 0 x is bf16, bit 1 delta, y and dy are, bit 2 dx is.

#include <cstdint>

namespace ingot::backend::cpu {

struct NormRows {
  bool rms = false;
  float epsilon = 0;
  int64_t channels = 0;
  unsigned types = 0;
  const void* x = nullptr;
  const void* delta = nullptr;
  void* x_out = nullptr;
  const float* w = nullptr;
  const float* b = nullptr;
  void* y = nullptr;
  const void* dy = nullptr;
  const void* residual_gradient = nullptr;
  void* dx = nullptr;
  float* dw = nullptr;  // [C], summed over the rows of a call
  float* db = nullptr;
};

void norm_forward_rows(const NormRows& n, int64_t begin, int64_t end);
void norm_backward_rows(const NormRows& n, int64_t begin, int64_t end);

}  // namespace ingot::backend::cpu
