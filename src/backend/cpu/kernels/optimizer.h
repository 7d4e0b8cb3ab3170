#pragma once
// Update of flat f32 parameters. Scalars that a step decides are read by the caller from the program's state
// just before the call.

#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu {

// Σ x² in double over x (f32 or bf16), by fixed blocks of 16,384 elements added in order. NaN and infinities
// come through.
int64_t sum_squares_workspace_bytes(int64_t elements);
double sum_squares(const Cpu& cpu, const tensor::TensorView& x, Workspace workspace);

// AdamW (Loshchilov and Hutter 2019):
//   g = grad_scale · grad;  m = β1 m + (1−β1) g;  v = β2 v + (1−β2) g²
//   param −= learning_rate · (m / bias_correction1 / (√(v / bias_correction2) + ε) + weight_decay · param)
// apply = false changes nothing (a skipped step).
struct AdamwArgs {
  tensor::TensorView param, m, v;  // [n] f32
  tensor::TensorView grad;         // [n] f32
  float grad_scale = 1;            // clip factor, 1/tokens and 1/loss scale together
  bool apply = true;
  float learning_rate = 0;
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float bias_correction1 = 1;  // 1 − β1^t
  float bias_correction2 = 1;  // 1 − β2^t
  float weight_decay = 0;
};
void adamw(const Cpu& cpu, const AdamwArgs& args);

}  // namespace ingot::backend::cpu
