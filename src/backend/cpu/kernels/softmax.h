#pragma once
// Inside of head.h: one row of logits, f32 or bf16.

#include <cstdint>

#include "tensor/tensor.h"

namespace ingot::backend::cpu {

struct SoftmaxStatistics {
  float highest = 0;  // of the logits; the least number where there are none
  float sum = 0;      // Σ exp(logit − highest)
};
// n >= 0. A logit that is no number shows in the sum.
SoftmaxStatistics softmax_statistics(tensor::DType dtype, const void* logits, int64_t n);

// In place: factor · (exp(logits − lse) − [i = label]); a label outside [0, n) is none of them.
void cross_entropy_gradient(tensor::DType dtype, void* logits, int64_t n, float lse, float factor,
                            int64_t label);

}  // namespace ingot::backend::cpu
