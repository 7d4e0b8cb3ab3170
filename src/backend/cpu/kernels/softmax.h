#pragma once
// Inside of head.h: one row of logits, f32 or bf16.

#include <cstdint>

#include "tensor/tensor.h"

namespace ingot::backend::cpu {

// log Σ exp(logits), n >= 1.
float log_sum_exp(tensor::DType dtype, const void* logits, int64_t n);

// In place: factor · (exp(logits − lse) − [i = label]).
void cross_entropy_gradient(tensor::DType dtype, void* logits, int64_t n, float lse, float factor,
                            int64_t label);

}  // namespace ingot::backend::cpu
