#pragma once
// Matrix products of a linear layer y = x wᵀ + b with w [O, I]: packed weights, forward, input gradient,
// weight gradient. bf16 products accumulate in f32. Weights are packed once after each update, from the f32
// master.

#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu {

// Packed weights "panel64": the columns of the product in panels of 64, the last one padded with zeros.
//   f32:  [N/64][K][64]          bf16: [N/64][K/2][64][2] (pairs along K; an odd K is padded with zeros)
// kForward: N = O, K = I. kBackward (input gradient): N = I, K = O. Any O, I >= 1.
enum class WeightUse : uint8_t { kForward, kBackward };

int64_t packed_weight_bytes(tensor::DType dtype, WeightUse use, int64_t out_features, int64_t in_features);

// Packs w [O, I], f32 or bf16, into `forward` and/or `backward` (either may be empty), with elements of
// `dtype`. Packed memory is 64-byte aligned.
struct PackWeightArgs {
  tensor::TensorView w;  // [O, I]
  tensor::DType dtype = tensor::DType::kBF16;
  std::span<std::byte> forward;
  std::span<std::byte> backward;
};
void pack_weight(const Cpu& cpu, const PackWeightArgs& args);

// y = a · W + bias + addend, for forward (a = x, packed for kForward) and input gradient (a = dy, packed for
// kBackward, no bias). y must not overlap a; addend may be y itself.
struct ProductArgs {
  tensor::TensorView a;               // [R, K] f32 or bf16: the type of the packed weights
  std::span<const std::byte> packed;  // W, panel64, N = y's last axis, K = a's
  tensor::TensorView bias;            // [N] f32, optional
  tensor::TensorView addend;          // [R, N] of y's type, optional
  tensor::TensorView y;               // [R, N] a's type; or f32 with a bf16
};
void product(const Cpu& cpu, const ProductArgs& args);

// dw = beta · dw + dyᵀ x and db = beta · db + Σ_rows dy. beta = 0 does not read the old values.
struct WeightGradientArgs {
  tensor::TensorView x;   // [R, I] f32 or bf16
  tensor::TensorView dy;  // [R, O] x's type
  float beta = 0;         // 0 or 1
  tensor::TensorView dw;  // [O, I] f32, optional
  tensor::TensorView db;  // [O] f32, optional
  Workspace workspace;
};
int64_t weight_gradient_workspace_bytes(tensor::DType dtype, int64_t rows, int64_t out_features,
                                        int64_t in_features);
void weight_gradient(const Cpu& cpu, const WeightGradientArgs& args);

}  // namespace ingot::backend::cpu
