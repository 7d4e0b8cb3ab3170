#pragma once
// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) over the last axis, fused with the
// residual add before them. Statistics in f32, recomputed by backward from x: nothing is kept but x.

#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu {

enum class NormKind : uint8_t { kLayer, kRms };

// x and x_out have the residual's type, delta and y the computation's; each f32 or bf16.
struct NormForwardArgs {
  NormKind kind = NormKind::kLayer;
  float epsilon = 1e-5F;
  tensor::TensorView x;      // [R, C]
  tensor::TensorView delta;  // [R, C], optional: x_out = x + delta, and the norm reads x_out as stored
  tensor::TensorView x_out;  // [R, C], with delta; may be x itself
  tensor::TensorView w;      // [C] f32
  tensor::TensorView b;      // [C] f32, optional
  tensor::TensorView y;      // [R, C]
};
void norm_forward(const Cpu& cpu, const NormForwardArgs& args);

// Any of dx, dw, db may be absent. dx = norm gradient + residual_gradient.
struct NormBackwardArgs {
  NormKind kind = NormKind::kLayer;
  float epsilon = 1e-5F;
  tensor::TensorView x;                  // [R, C] what the norm read
  tensor::TensorView w;                  // [C] f32
  tensor::TensorView dy;                 // [R, C]
  tensor::TensorView residual_gradient;  // [R, C] dx's type, optional; may be dx itself
  tensor::TensorView dx;                 // [R, C]
  float beta = 0;                        // 0 or 1, of dw and db
  tensor::TensorView dw;                 // [C] f32
  tensor::TensorView db;                 // [C] f32
  Workspace workspace;
};
int64_t norm_backward_workspace_bytes(int64_t rows, int64_t channels);
void norm_backward(const Cpu& cpu, const NormBackwardArgs& args);

}  // namespace ingot::backend::cpu
