#include <algorithm>

#include "graph/targets/targets.h"

namespace ingot::graph {
namespace {

constexpr int64_t kHeadRows = 16;  // whose logits are kept at a time

// Doubles that the kernels of backend/reference sum in.
int64_t reference_workspace_bytes(const Graph& graph, const Node& node, int threads) {
  (void)threads;
  const auto input = [&](size_t index) -> const Shape& { return graph.value(node.inputs[index]).stored; };
  int64_t doubles = 0;
  if (node.op == Op::kAttention || node.op == Op::kAttentionCached) doubles = input(1)[1];
  if (node.op == Op::kAttentionGrad) doubles = 2 * input(1)[1] * input(1)[2] + node.attributes.head_dim;
  if (node.op == Op::kHeadLoss) doubles = std::min(kHeadRows, input(0).rows()) * input(1)[0];
  return doubles * tensor::size_of(DType::kF64);
}

}  // namespace

// Plain loops over the operands as they are: nothing fused or packed.
const Target& reference_target() {
  static const Target target{
      .name = "reference",
      .alignment = tensor::kAlignment,
      .space = {},
      .precisions = {Precision::kF64, Precision::kF32, Precision::kBF16, Precision::kF16},
      .fusions = {},
      .weight_layouts = nullptr,
      .packed = {},
      .workspace_bytes = reference_workspace_bytes,
      .casts_in_pack = true,
  };
  return target;
}

}  // namespace ingot::graph
