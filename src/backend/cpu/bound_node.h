#pragma once
// What the CPU backend keeps for a bound instruction, and the kernels of its table. Private to backend/cpu.

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu {

struct BoundNode {
  bool native_bf16 = false;
  std::vector<float> inverse_frequencies;  // rotary: [D/2]
};

inline Cpu cpu_of(const KernelArgs& args, const void* state) {
  return Cpu{*args.pool, static_cast<const BoundNode*>(state)->native_bf16};
}
inline float beta_of(const KernelArgs& args) { return args.overwrite ? 0.0F : 1.0F; }
inline std::span<const std::byte> bytes_of(const TensorView& view) {
  return {view.as<std::byte>(), static_cast<size_t>(view.bytes())};
}
inline TensorView optional(std::span<const TensorView> views, size_t index) {
  return index < views.size() ? views[index] : TensorView{};
}

// One per operation, in the order of graph/ops.h.
void run_embed(const KernelArgs& args, void* state);
void run_embed_dw(const KernelArgs& args, void* state);
void run_linear(const KernelArgs& args, void* state);
void run_linear_dx(const KernelArgs& args, void* state);
void run_linear_dw(const KernelArgs& args, void* state);
void run_norm(const KernelArgs& args, void* state);
void run_norm_dx(const KernelArgs& args, void* state);
void run_norm_dw(const KernelArgs& args, void* state);
void run_rotary(const KernelArgs& args, void* state);
void run_attention(const KernelArgs& args, void* state);
void run_attention_grad(const KernelArgs& args, void* state);
void run_attention_merge(const KernelArgs& args, void* state);
void run_activation(const KernelArgs& args, void* state);
void run_activation_grad(const KernelArgs& args, void* state);
void run_add(const KernelArgs& args, void* state);
void run_dropout(const KernelArgs& args, void* state);
void run_head_stats(const KernelArgs& args, void* state);
void run_head_loss(const KernelArgs& args, void* state);
void run_cast(const KernelArgs& args, void* state);
void run_pack(const KernelArgs& args, void* state);
void run_zero(const KernelArgs& args, void* state);
void run_sum_squares(const KernelArgs& args, void* state);
void run_adamw(const KernelArgs& args, void* state);
void run_cache_append(const KernelArgs& args, void* state);
void run_attention_cached(const KernelArgs& args, void* state);

}  // namespace ingot::backend::cpu
