#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <array>
#include <deque>

#include "backend/cpu/bound_node.h"
#include "backend/reference/reference.h"
#include "graph/ops.h"

namespace ingot::backend::cpu {
namespace {

using graph::Op;

struct KernelRow {
  Op op;
  Kernel kernel;
};

// Operations on a few numbers, or that move bytes as they are, are the reference's own.
constexpr std::array kKernels = {
    KernelRow{Op::kEmbed, run_embed},
    KernelRow{Op::kEmbedDw, run_embed_dw},
    KernelRow{Op::kLinear, run_linear},
    KernelRow{Op::kLinearDx, run_linear_dx},
    KernelRow{Op::kLinearDw, run_linear_dw},
    KernelRow{Op::kNorm, run_norm},
    KernelRow{Op::kNormDx, run_norm_dx},
    KernelRow{Op::kNormDw, run_norm_dw},
    KernelRow{Op::kRotary, run_rotary},
    KernelRow{Op::kAttention, run_attention},
    KernelRow{Op::kAttentionGrad, run_attention_grad},
    KernelRow{Op::kAttentionMerge, run_attention_merge},
    KernelRow{Op::kActivation, run_activation},
    KernelRow{Op::kActivationGrad, run_activation_grad},
    KernelRow{Op::kAdd, run_add},
    KernelRow{Op::kDropout, run_dropout},
    KernelRow{Op::kHeadStats, run_head_stats},
    KernelRow{Op::kHeadLoss, run_head_loss},
    KernelRow{Op::kCast, run_cast},
    KernelRow{Op::kPack, run_pack},
    KernelRow{Op::kZero, run_zero},
    KernelRow{Op::kSumSquares, run_sum_squares},
    KernelRow{Op::kControl, reference::control},
    KernelRow{Op::kAdamW, run_adamw},
    KernelRow{Op::kCacheAppend, run_cache_append},
    KernelRow{Op::kAttentionCached, run_attention_cached},
    KernelRow{Op::kSlice, reference::slice},
    KernelRow{Op::kBroadcastGrad, reference::copy},
    KernelRow{Op::kCopy, reference::copy},
};

bool supported(tensor::DType dtype) { return dtype != tensor::DType::kF16; }

class CpuBackend final : public Backend {
 public:
  CpuBackend() : target_(*graph::find_target("cpu")), native_bf16_(has_avx512_bf16()) {}
  const graph::Target& target() const override { return target_; }
  void prepare_thread() override { flush_denormals(); }

  Result<Bound> bind(const graph::Graph& graph, const graph::Node& node) override {
    for (const graph::ValueId id : node.inputs) {
      if (!supported(graph.value(id).dtype))
        return not_found(fmt::format("backend cpu computes in fp32 and bf16; {} is {}", graph.value(id).name,
                                     tensor::name_of(graph.value(id).dtype)));
    }
    for (const KernelRow& row : kKernels) {
      if (row.op == node.op) return Bound{row.kernel, keep(node)};
    }
    return not_found(fmt::format("backend cpu has no kernel for {}", graph::info(node.op).name));
  }

 private:
  void* keep(const graph::Node& node) {
    BoundNode& bound = nodes_.emplace_back();
    bound.native_bf16 = native_bf16_;
    if (node.op == Op::kRotary) {
      for (int64_t i = 0; i < node.attributes.head_dim / 2; ++i)
        bound.inverse_frequencies.push_back(
            static_cast<float>(reference::rotary_frequency(node.attributes, i)));
    }
    return &bound;
  }

  const graph::Target& target_;
  bool native_bf16_;
  std::deque<BoundNode> nodes_;  // addresses stay
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend() {
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>());
}

}  // namespace ingot::backend::cpu
