#pragma once
// Output head fused with cross-entropy, in chunks of kHeadRows rows: logits = x wᵀ of one chunk live at a
// time, never all of [R, V]. Training makes loss, dx and dw in one call (three products a chunk, nothing is
// recomputed).

#include "backend/cpu/kernels/cpu.h"
#include "backend/cpu/kernels/linear.h"

namespace ingot::backend::cpu {

inline constexpr int64_t kHeadRows = 512;

struct HeadResult {
  double loss_sum = 0;  // Σ mask · −log p(label), before `scale`; rows added in order
  double tokens = 0;    // Σ mask
};

// Training when `dx` is given, evaluation otherwise. dlogits = scale · mask · (softmax − onehot).
struct HeadArgs {
  tensor::TensorView x;                 // [R, C] f32 or bf16
  int64_t vocabulary = 0;               // V: any
  std::span<const std::byte> forward;   // w [V, C] packed for kForward
  std::span<const std::byte> backward;  // w [V, C] packed for kBackward; training only
  tensor::TensorView labels;            // [R] i32; a label outside [0, V) counts as mask 0
  tensor::TensorView mask;              // [R] f32 or u8, optional: all ones
  float scale = 1;
  tensor::TensorView dx;  // [R, C] x's type, optional
  float beta = 0;         // 0 or 1, of dw
  tensor::TensorView dw;  // [V, C] f32: beta · dw + dlogitsᵀ x; optional
  Workspace workspace;
};
int64_t head_workspace_bytes(tensor::DType dtype, int64_t rows, int64_t channels, int64_t vocabulary,
                             bool training);
HeadResult head_cross_entropy(const Cpu& cpu, const HeadArgs& args);

}  // namespace ingot::backend::cpu
