#pragma once
// Inside of elementwise.h, attention.h and optimizer.h: simple operations over a span of elements.

#include <cstdint>

#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/optimizer.h"

namespace ingot::backend::cpu {

// out = a + factor · b; types bit 0: a and out are bf16, bit 1: b is.
struct AddSpan {
  unsigned types = 0;
  const void *a = nullptr, *b = nullptr;
  float factor = 1;
  void* out = nullptr;
};
void run_add_span(const AddSpan& s, int64_t begin, int64_t end);
// to = factor · from; types bit 0: from is bf16, bit 1: to is.
struct CastSpan {
  unsigned types = 0;
  const void* from = nullptr;
  float factor = 1;
  void* to = nullptr;
};
void run_cast_span(const CastSpan& s, int64_t begin, int64_t end);
// out = a_weight · a + b_weight · b, of n elements; types bit 0: a is bf16, bit 1: b is, bit 2: out is.
struct BlendRow {
  unsigned types = 0;
  const void *a = nullptr, *b = nullptr;
  float a_weight = 1, b_weight = 1;
  void* out = nullptr;
};
void run_blend_row(const BlendRow& r, int64_t n);
double sum_squares_span(bool bf16, const void* x, int64_t begin, int64_t end);
void run_adamw_span(const AdamwArgs& args, int64_t begin, int64_t end);

// One row of dropout: y[c] from element `first` + c of `sample`.
void run_dropout_row(const DropoutArgs& args, int64_t row, uint64_t first, uint64_t sample);
// One row of rotary over all heads, at `angle_position`.
void run_rotary_row(const RotaryArgs& args, int64_t row, float angle_position);

}  // namespace ingot::backend::cpu
