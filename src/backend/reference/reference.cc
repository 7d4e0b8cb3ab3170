#include "backend/reference/reference.h"

#include <fmt/format.h>

#include <array>

namespace ingot::backend::reference {
namespace {

using graph::Op;

struct KernelRow {
  Op op;
  Kernel kernel;
};

constexpr std::array kKernels = {
    KernelRow{Op::kEmbed, embed},
    KernelRow{Op::kEmbedDw, embed_dw},
    KernelRow{Op::kLinear, linear},
    KernelRow{Op::kLinearDx, linear_dx},
    KernelRow{Op::kLinearDw, linear_dw},
    KernelRow{Op::kNorm, norm},
    KernelRow{Op::kNormDx, norm_dx},
    KernelRow{Op::kNormDw, norm_dw},
    KernelRow{Op::kRotary, rotary},
    KernelRow{Op::kAttention, attention},
    KernelRow{Op::kAttentionGrad, attention_grad},
    KernelRow{Op::kAttentionMerge, attention_merge},
    KernelRow{Op::kActivation, activation},
    KernelRow{Op::kActivationGrad, activation_grad},
    KernelRow{Op::kAdd, add},
    KernelRow{Op::kDropout, dropout},
    KernelRow{Op::kHeadStats, head_stats},
    KernelRow{Op::kHeadLoss, head_loss},
    KernelRow{Op::kSlice, slice},
    KernelRow{Op::kBroadcastGrad, copy},
    KernelRow{Op::kCast, cast},
    KernelRow{Op::kSumSquares, sum_squares},
    KernelRow{Op::kControl, control},
    KernelRow{Op::kAdamW, adamw},
    KernelRow{Op::kCacheAppend, cache_append},
    KernelRow{Op::kAttentionCached, attention_cached},
    KernelRow{Op::kZero, zero},
    KernelRow{Op::kCopy, copy},
};

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(const graph::Target& target) : target_(target) {}
  const graph::Target& target() const override { return target_; }

  Result<Bound> bind(const graph::Graph&, const graph::Node& node) override {
    for (const KernelRow& row : kKernels)
      if (row.op == node.op) return Bound{row.kernel, nullptr};
    return not_found(
        fmt::format("backend {} has no kernel for {}{}", target_.name, graph::info(node.op).name,
                    node.op == Op::kPack ? ": it reads weights as they are, in no packed layout" : ""));
  }

 private:
  const graph::Target& target_;
};

const graph::Target& near_target() {
  const graph::Target* target = graph::find_target("reference");
  INGOT_CHECK(target != nullptr, "graph has no target named reference");
  return *target;
}

}  // namespace

const graph::Target& far_target() {
  static const graph::Target target = [] {
    graph::Target far = near_target();
    far.name = "reference-far";
    far.space = tensor::MemorySpace{1};
    return far;
  }();
  return target;
}

Result<std::unique_ptr<Backend>> make() {
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>(near_target()));
}
Result<std::unique_ptr<Backend>> make_far() {
  return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>(far_target()));
}

}  // namespace ingot::backend::reference
