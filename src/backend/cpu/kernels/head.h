#pragma once
// Output head fused with cross-entropy, in chunks of kHeadRows rows: logits = x wᵀ of one chunk live at a
// time, never all of [R, V]. Training makes loss, dx and dw in one call (three products a chunk, nothing is
// recomputed). Where w is cut by rows over several ranks, each makes the statistics of its logits first and
// is given all ranks' for loss and gradients: one product more.

#include <algorithm>

#include "backend/cpu/kernels/cpu.h"
#include "backend/cpu/kernels/linear.h"

namespace ingot::backend::cpu {

inline constexpr int64_t kHeadRows = 512;

struct HeadResult {
  double loss_sum = 0;  // Σ mask · −log p(label), before `scale`; rows added in order
  double tokens = 0;    // Σ mask
};

// Which rows of the table [V, C] a rank holds: [first, first + stored), of which those from V on are zeros.
struct HeadPart {
  int64_t vocabulary = 0;  // V: any
  int64_t first = 0;
  int64_t stored = 0;
  int64_t held() const { return std::clamp<int64_t>(vocabulary - first, 0, stored); }
};
inline HeadPart whole_vocabulary(int64_t vocabulary) { return {vocabulary, 0, vocabulary}; }

// Training when `dx` is given, evaluation otherwise. dlogits = scale · mask · (softmax − onehot).
struct HeadArgs {
  tensor::TensorView x;                 // [R, C] f32 or bf16
  HeadPart part;                        // N = part.stored in what follows
  std::span<const std::byte> forward;   // w [N, C] packed for kForward
  std::span<const std::byte> backward;  // w [N, C] packed for kBackward; training only
  tensor::TensorView labels;            // [R] i32; a label outside [0, V) counts as mask 0
  tensor::TensorView mask;              // [R] f32 or u8, optional: all ones
  tensor::TensorView statistics;  // [R, 3 · parts] f32 of all parts' head_statistics, side by side; absent
                                  // where this part is the whole
  float scale = 1;
  tensor::TensorView dx;  // [R, C] x's type, optional: this part's share of the gradient
  float beta = 0;         // 0 or 1, of dw
  tensor::TensorView dw;  // [N, C] f32: beta · dw + dlogitsᵀ x; optional
  Workspace workspace;
};
int64_t head_workspace_bytes(tensor::DType dtype, int64_t rows, int64_t channels, int64_t stored,
                             bool training);
HeadResult head_cross_entropy(const Cpu& cpu, const HeadArgs& args);

// Of the logits of this part: their greatest, Σ exp(logit − greatest), and the label's where it is in this
// part, else 0. Reads x, part, forward, labels and workspace of `args`.
void head_statistics(const Cpu& cpu, const HeadArgs& args,
                     const tensor::TensorView& statistics);  // [R, 3] f32

}  // namespace ingot::backend::cpu
