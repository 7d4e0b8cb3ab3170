#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops.h"
#include "graph/passes/passes.h"
#include "graph/tiny_model_for_tests.h"

namespace ingot::graph {
namespace {

DType dtype_of(const Graph& graph, const std::string& name) {
  const ValueId id = graph.find_value(name);
  EXPECT_NE(id, kNoValue) << name;
  return graph.value(id).dtype;
}

int64_t casts(const Graph& graph) { return std::ranges::count(graph.nodes, Op::kCast, &Node::op); }

TEST(Precision, F32AndF64NeedNoCasts) {
  const Graph forward = TinyModel{.gpt2 = true, .dropout = 0.1}.build({.batch = 1, .sequence = 4});
  EXPECT_EQ(casts(precision_pass(forward, Precision::kF32, std::nullopt)), 0);
  const Graph graph = precision_pass(forward, Precision::kF64, DType::kF32);
  EXPECT_EQ(casts(graph), 0);
  for (const Value& value : graph.values)
    if (value.role == Role::kActivation || value.role == Role::kParameter) {
      EXPECT_EQ(value.dtype, DType::kF64) << value.name;
    }
  EXPECT_EQ(dtype_of(graph, "batch.tokens"), DType::kI32);
  EXPECT_EQ(dtype_of(graph, "batch.sample"), DType::kI64);
  EXPECT_EQ(dtype_of(graph, "batch.loss_mask"), DType::kF32);
}

TEST(Precision, BF16CastsMatricesOnceAndKeepsTheRest) {
  const Graph forward = TinyModel{.gpt2 = true, .tied = true}.build({.batch = 1, .sequence = 4});
  const Graph graph = precision_pass(forward, Precision::kBF16, std::nullopt);
  EXPECT_EQ(casts(graph), 2 * 6 + 1);  // the tied table is cast for the head only
  EXPECT_EQ(dtype_of(graph, "wte.weight"), DType::kF32);
  EXPECT_EQ(dtype_of(graph, "wte.weight.bf16"), DType::kBF16);
  EXPECT_EQ(dtype_of(graph, "wte"), DType::kBF16);
  EXPECT_EQ(dtype_of(graph, "h.0.attn.q.weight.bf16"), DType::kBF16);
  EXPECT_EQ(dtype_of(graph, "h.0.attn.q.bias"), DType::kF32);
  EXPECT_EQ(dtype_of(graph, "h.0.ln_1.weight"), DType::kF32);
  EXPECT_EQ(dtype_of(graph, "h.0.ln_1"), DType::kBF16);
  EXPECT_EQ(dtype_of(graph, "h.0.attention"), DType::kBF16);
  EXPECT_EQ(dtype_of(graph, "h.0.attention.lse"), DType::kF32);
  EXPECT_EQ(dtype_of(graph, "h.1.add.2"), DType::kBF16);
  for (const Node& node : graph.nodes)
    if (node.op == Op::kEmbed) {
      EXPECT_EQ(graph.value(node.inputs[1]).dtype, DType::kF32);
    }
}

TEST(Precision, SeedsOfGradients) {
  EXPECT_EQ(gradient_seed(Precision::kBF16, 1024), 1);
  EXPECT_EQ(gradient_seed(Precision::kF32, 1024), 1);
  EXPECT_EQ(gradient_seed(Precision::kF16, 1), 1);
  EXPECT_EQ(gradient_seed(Precision::kF16, 1024), 1.0 / 1024);
  EXPECT_EQ(gradient_seed(Precision::kF16, 1025), 1.0 / 2048);
}

TEST(Precision, AWiderResidualIsCastWhereBlocksJoinIt) {
  const Graph forward = TinyModel{.layers = 1}.build({.batch = 1, .sequence = 4});
  const Graph graph = precision_pass(forward, Precision::kBF16, DType::kF32);
  EXPECT_EQ(dtype_of(graph, "wte"), DType::kF32);
  EXPECT_EQ(dtype_of(graph, "h.0.ln_1"), DType::kBF16);
  EXPECT_EQ(dtype_of(graph, "h.0.attn.o"), DType::kBF16);
  EXPECT_EQ(dtype_of(graph, "h.0.attn.o.f32"), DType::kF32);
  EXPECT_EQ(dtype_of(graph, "h.0.add.2"), DType::kF32);
  for (const Node& node : graph.nodes)
    if (node.op == Op::kAdd) {
      for (const ValueId input : node.inputs) EXPECT_EQ(graph.value(input).dtype, DType::kF32);
    }
}

TEST(Precision, CachesAreKeptInTheTypeOfComputation) {
  const Graph forward =
      TinyModel{}.build({.purpose = Purpose::kDecode, .batch = 1, .sequence = 1, .cache = 8});
  const Graph graph = precision_pass(forward, Precision::kBF16, std::nullopt);
  EXPECT_EQ(dtype_of(graph, "cache.v.0"), DType::kBF16);
  EXPECT_EQ(dtype_of(precision_pass(forward, Precision::kF32, std::nullopt), "cache.v.0"), DType::kF32);
}

}  // namespace
}  // namespace ingot::graph
