#pragma once
// Inside of elementwise.h: activations over a span of elements.

#include <cstdint>

#include "backend/cpu/kernels/elementwise.h"

namespace ingot::backend::cpu {

struct ActivationSpan {
  const void* x = nullptr;
  const void* dy = nullptr;  // null: forward
  void* out = nullptr;
};
struct SwigluSpan {
  const void *gate = nullptr, *up = nullptr, *dy = nullptr;  // dy null: forward
  void *y = nullptr, *dgate = nullptr, *dup = nullptr;
};

void run_activation_span(bool bf16, Activation kind, const ActivationSpan& s, int64_t begin, int64_t end);
void run_swiglu_span(bool bf16, const SwigluSpan& s, int64_t begin, int64_t end);

}  // namespace ingot::backend::cpu
