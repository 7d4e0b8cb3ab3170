// What the CPU kernels read and need (backend/cpu/kernels): panels of 64 columns for every weight of a product, and
// workspaces that depend on shapes and threads. The same on every CPU, so that a plan made on one holds on another; the
// backend's test asserts that its own formulas equal these.

#include <array>

#include "graph/targets/targets.h"

namespace ingot::graph {
namespace {

constexpr int64_t kPanel = 64;

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }
int64_t padded(int64_t size, int64_t block) { return blocks(size, block) * block; }

// f32 [N/64][K][64], bf16 [N/64][K/2][64][2]; N and an odd K of bf16 padded with zeros.
int64_t panel_bytes(int64_t columns, int64_t reduction, DType dtype) {
  const int64_t pairs = dtype == DType::kBF16 ? 2 : 1;
  return padded(columns, kPanel) * padded(reduction, pairs) * tensor::size_of(dtype);
}
int64_t f32_forward(int64_t rows, int64_t columns) { return panel_bytes(rows, columns, DType::kF32); }
int64_t f32_backward(int64_t rows, int64_t columns) { return panel_bytes(columns, rows, DType::kF32); }
int64_t bf16_forward(int64_t rows, int64_t columns) { return panel_bytes(rows, columns, DType::kBF16); }
int64_t bf16_backward(int64_t rows, int64_t columns) { return panel_bytes(columns, rows, DType::kBF16); }

WeightLayouts cpu_weight_layouts(Op op, Precision precision, bool with_gradient) {
  const bool bf16 = precision == Precision::kBF16;
  const std::string_view forward = bf16 ? "panel64_bf16_forward" : "panel64_f32_forward";
  const std::string_view backward = bf16 ? "panel64_bf16_backward" : "panel64_f32_backward";
  if (op == Op::kLinearDx) return {backward, {}};
  if (op == Op::kHeadLoss && with_gradient) return {forward, backward};
  return {forward, {}};
}

const Value& input(const Graph& graph, const Node& node, size_t index) { return graph.value(node.inputs[index]); }

int64_t weight_gradient_workspace(DType dtype, int64_t rows, int64_t out, int64_t in) {
  constexpr int64_t kRows = 8, kColumns = 48, kPackRows = 64;
  const int64_t stride = padded(rows, 4), element = tensor::size_of(dtype);
  return tensor::align_up(padded(out, kRows) * stride * element) +
         tensor::align_up(padded(in, kColumns) * stride * element) +
         tensor::align_up(blocks(rows, kPackRows) * out * 4);
}

int64_t cpu_workspace_bytes(const Graph& graph, const Node& node, int threads) {
  (void)threads;
  if (node.op == Op::kLinearDw) {
    const Value &x = input(graph, node, 0), &dy = input(graph, node, 1);
    return weight_gradient_workspace(x.dtype, x.stored.rows(), dy.stored.last(), x.stored.last());
  }
  return 0;
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
