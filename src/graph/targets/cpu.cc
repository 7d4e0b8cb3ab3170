// What the CPU kernels read and need (backend/cpu/kernels): panels of 64 columns for every weight of a
// product, and workspaces that depend on shapes and threads.

#include <array>

#include "graph/targets/cpu_workspace.h"
#include "graph/targets/targets.h"

namespace ingot::graph {
namespace {

int64_t f32_forward(int64_t rows, int64_t columns) {
  return cpu::packed_forward_bytes(DType::kF32, rows, columns);
}
int64_t f32_backward(int64_t rows, int64_t columns) {
  return cpu::packed_backward_bytes(DType::kF32, rows, columns);
}
int64_t bf16_forward(int64_t rows, int64_t columns) {
  return cpu::packed_forward_bytes(DType::kBF16, rows, columns);
}
int64_t bf16_backward(int64_t rows, int64_t columns) {
  return cpu::packed_backward_bytes(DType::kBF16, rows, columns);
}

WeightLayouts cpu_weight_layouts(Op op, Precision precision, bool with_gradient) {
  const bool bf16 = precision == Precision::kBF16;
  const std::string_view forward = bf16 ? "panel64_bf16_forward" : "panel64_f32_forward";
  const std::string_view backward = bf16 ? "panel64_bf16_backward" : "panel64_f32_backward";
  if (op == Op::kLinearDx) return {backward, {}};
  if (op == Op::kHeadLoss && with_gradient) return {forward, backward};
  return {forward, {}};
}

int64_t cpu_workspace_bytes(const Graph& graph, const Node& node, int threads) {
  const auto input = [&](size_t index) -> const Value& { return graph.value(node.inputs[index]); };
  const auto rows = [&] { return input(0).stored.rows(); };
  const auto channels = [&] { return input(0).stored.last(); };
  switch (node.op) {
    case Op::kLinearDw:
      return cpu::weight_gradient_bytes(input(0).dtype, rows(), input(1).stored.last(), channels());
    case Op::kHeadStats:
    case Op::kHeadLoss:
      return cpu::head_bytes(input(0).dtype, rows(), channels(),
                             cpu::head_rows(node.attributes.vocabulary, node.attributes.group_size),
                             node.attributes.with_gradient);
    case Op::kAttention:
      return cpu::attention_forward_bytes(input(0).stored[1], input(1).stored[1], node.attributes.head_dim,
                                          threads);
    case Op::kAttentionGrad:
      return cpu::attention_backward_bytes(input(0).stored[1], input(1).stored[1], node.attributes.head_dim,
                                           threads);
    case Op::kAttentionCached:
      return cpu::cached_attention_bytes(input(1).stored[1], threads);
    case Op::kNormDw:
      return cpu::norm_gradient_bytes(rows(), channels());
    case Op::kSumSquares:
      return cpu::sum_squares_bytes(input(0).stored.elements());
    default:
      return 0;
  }
}

}  // namespace

const Target& cpu_target() {
  static constexpr std::array<PackedLayout, 4> kLayouts = {{{"panel64_f32_forward", f32_forward},
                                                            {"panel64_f32_backward", f32_backward},
                                                            {"panel64_bf16_forward", bf16_forward},
                                                            {"panel64_bf16_backward", bf16_backward}}};
  static const Target target{
      .name = "cpu",
      .alignment = tensor::kAlignment,
      .space = {},
      .precisions = {Precision::kF32, Precision::kBF16},
      .fusions = {{"add+norm"}, {"norm_dx+add"}, {"linear_dx+add"}},
      .weight_layouts = cpu_weight_layouts,
      .packed = {kLayouts.begin(), kLayouts.end()},
      .workspace_bytes = cpu_workspace_bytes,
      .casts_in_pack = true,
  };
  return target;
}

}  // namespace ingot::graph
