#include "graph/ops.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/tiny_model_for_tests.h"

namespace ingot::graph {
namespace {

ValueId add_input(Graph& graph, const std::string& name, const Shape& shape, DType dtype = DType::kF32) {
  Value value;
  value.name = name;
  value.logical = value.stored = shape;
  value.dtype = dtype;
  return graph.add_value(std::move(value));
}

ValueId add_parameter(Graph& graph, const std::string& name, const Shape& shape) {
  Parameter parameter;
  parameter.name = name;
  parameter.logical = parameter.stored = shape;
  graph.parameters.push_back(std::move(parameter));
  return graph.parameter_value(static_cast<int>(graph.parameters.size() - 1));
}

Node node_of(Op op, std::vector<ValueId> inputs, const Attributes& attributes = {}) {
  Node node{.op = op, .layer = 0, .inputs = std::move(inputs)};
  node.attributes = attributes;
  return node;
}

// Adds the node, gives every output a gradient, runs the derivative; returns the gradients of the inputs.
std::vector<ValueId> differentiate(Graph& graph, Node node) {
  const size_t count = node.inputs.size();
  const auto outputs = graph.add_node(std::move(node));
  const int index = static_cast<int>(graph.nodes.size() - 1);
  std::vector<ValueId> gradients, result(count, kNoValue);
  for (const ValueId output : outputs)
    gradients.push_back(add_input(graph, "dy", graph.value(output).stored, graph.value(output).dtype));
  info(graph.nodes.back().op).derivative(graph, index, gradients, result);
  return result;
}

TEST(Ops, TableIsInOrderAndNamesAreUnique) {
  std::set<std::string_view> names;
  ASSERT_EQ(static_cast<int>(all_ops().size()), kOpCount);
  for (const OpInfo& row : all_ops()) {
    EXPECT_EQ(&info(row.op), &row);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(row.cost, nullptr) << row.name;
  }
}

TEST(Ops, EveryForwardOperationOfAFamilyHasADerivativeAndAShape) {
  for (const bool gpt2 : {false, true}) {
    Graph graph = TinyModel{.gpt2 = gpt2, .dropout = 0.1}.build({.batch = 2, .sequence = 8});
    for (const Node& node : graph.nodes) {
      EXPECT_NE(info(node.op).derivative, nullptr) << info(node.op).name;
      if (node.op != Op::kHeadLoss) {
        EXPECT_NE(info(node.op).shape, nullptr) << info(node.op).name;
      }
    }
  }
}

TEST(Ops, LinearShapesGradientsAndFlops) {
  Graph graph;
  const ValueId x = add_input(graph, "x", {2, 3, 5});
  const ValueId w = add_parameter(graph, "h.0.q.weight", {7, 5});
  const ValueId bias = add_parameter(graph, "h.0.q.bias", {7});
  const auto gradients = differentiate(graph, node_of(Op::kLinear, {x, w, bias}));
  ASSERT_EQ(graph.nodes.size(), 3U);
  EXPECT_EQ(graph.value(graph.nodes[0].outputs[0]).stored, (Shape{2, 3, 7}));
  EXPECT_EQ(graph.value(graph.nodes[0].outputs[0]).name, "h.0.q");
  EXPECT_EQ(graph.nodes[1].op, Op::kLinearDx);
  EXPECT_EQ(graph.nodes[1].phase, Phase::kBackward);
  EXPECT_EQ(graph.value(gradients[0]).stored, (Shape{2, 3, 5}));
  EXPECT_EQ(graph.value(gradients[0]).name, "d.x");
  EXPECT_EQ(gradients[1], kNoValue);
  EXPECT_EQ(graph.nodes[2].op, Op::kLinearDw);
  EXPECT_EQ(graph.nodes[2].outputs, (std::vector<ValueId>{graph.gradient_value(0), graph.gradient_value(1)}));
  for (const Node& node : graph.nodes) EXPECT_EQ(info(node.op).cost(graph, node).flops, 2.0 * 6 * 5 * 7);
}

TEST(Ops, LinearOfACastWeightAddsIntoTheMastersGradient) {
  Graph graph;
  const ValueId x = add_input(graph, "x", {4, 5}, DType::kBF16);
  const ValueId w = add_parameter(graph, "w.weight", {7, 5});
  Value copy = graph.value(w);
  copy.dtype = DType::kBF16;
  Node cast = node_of(Op::kCast, {w});
  cast.outputs = {graph.add_value(std::move(copy))};
  const ValueId cast_weight = graph.add_node(std::move(cast))[0];
  differentiate(graph, node_of(Op::kLinear, {x, cast_weight}));
  EXPECT_EQ(graph.value(graph.nodes[1].outputs[0]).dtype, DType::kBF16);
  const ValueId gradient = graph.nodes.back().outputs[0];
  EXPECT_EQ(gradient, graph.gradient_value(0));
  EXPECT_EQ(graph.value(gradient).dtype, DType::kF32);
  EXPECT_EQ(graph.value(gradient).role, Role::kGradient);
}

TEST(Ops, AttentionCountsTheCausalHalfOnceAndTwiceBackward) {
  Graph graph;
  const ValueId q = add_input(graph, "q", {2, 6, 12}), k = add_input(graph, "k", {2, 6, 6});
  const ValueId v = add_input(graph, "v", {2, 6, 6}), position = add_input(graph, "p", {2, 6}, DType::kI32);
  const auto gradients =
      differentiate(graph, node_of(Op::kAttention, {q, k, v, position, position, position}, {.head_dim = 3}));
  const double forward = 2.0 * 2 * 6 * 6 * 12;
  EXPECT_EQ(info(Op::kAttention).cost(graph, graph.nodes[0]).flops, forward);
  EXPECT_EQ(info(Op::kAttentionGrad).cost(graph, graph.nodes[1]).flops, 2 * forward);
  EXPECT_EQ(graph.value(graph.nodes[0].outputs[1]).stored, (Shape{2, 6, 4}));
  EXPECT_EQ(graph.value(gradients[1]).stored, (Shape{2, 6, 6}));
  EXPECT_EQ(gradients[3], kNoValue);
  EXPECT_EQ(graph.nodes[1].inputs.size(), 9U);
}

TEST(Ops, HeadLossMakesItsGradientsInTheForwardPhase) {
  Graph graph;
  const ValueId x = add_input(graph, "x", {2, 4, 8}), w = add_parameter(graph, "head.weight", {11, 8});
  const ValueId labels = add_input(graph, "labels", {2, 4}, DType::kI32),
                mask = add_input(graph, "mask", {2, 4});
  const ValueId scalars = add_input(graph, "scalars", {16}, DType::kF64);
  Node loss = node_of(Op::kHeadLoss, {x, w, labels, mask, scalars}, {.vocabulary = 11});
  loss.outputs = {add_input(graph, "sums", {16}, DType::kF64)};
  graph.add_node(std::move(loss));
  EXPECT_EQ(info(Op::kHeadLoss).cost(graph, graph.nodes[0]).flops, 2.0 * 8 * 8 * 11);
  std::vector<ValueId> gradients(5, kNoValue);
  info(Op::kHeadLoss).derivative(graph, 0, std::vector<ValueId>{kNoValue}, gradients);
  ASSERT_EQ(graph.nodes.size(), 1U);
  const Node& node = graph.nodes[0];
  EXPECT_EQ(node.phase, Phase::kForward);
  EXPECT_TRUE(node.attributes.with_gradient);
  ASSERT_EQ(node.outputs.size(), 3U);
  EXPECT_EQ(node.outputs[1], gradients[0]);
  EXPECT_EQ(node.outputs[2], graph.gradient_value(0));
  EXPECT_EQ(info(Op::kHeadLoss).cost(graph, node).flops, 3 * 2.0 * 8 * 8 * 11);
}

TEST(Ops, ConversionsAreEachOthersDuals) {
  const Attributes attributes{.group = kTpMask, .group_size = 2, .dim = 1};
  const auto dual = [&](Op op, bool partial) {
    Graph graph;
    const ValueId x = add_input(graph, "x", {2, 4, 6});
    Attributes own = attributes;
    own.gradient_partial = partial;
    const auto gradients = differentiate(graph, node_of(op, {x}, own));
    if (graph.nodes.size() == 1) return std::pair{Op::kCopy, gradients[0] != kNoValue};
    EXPECT_EQ(graph.value(gradients[0]).stored, graph.value(x).stored) << info(op).name;
    return std::pair{graph.nodes[1].op, true};
  };
  EXPECT_EQ(dual(Op::kAllReduce, false), std::pair(Op::kCopy, true));
  EXPECT_EQ(dual(Op::kBroadcastGrad, false), std::pair(Op::kAllReduce, true));
  EXPECT_EQ(dual(Op::kAllGather, true), std::pair(Op::kReduceScatter, true));
  EXPECT_EQ(dual(Op::kAllGather, false), std::pair(Op::kSlice, true));
  EXPECT_EQ(dual(Op::kReduceScatter, false), std::pair(Op::kAllGather, true));
  EXPECT_EQ(dual(Op::kSlice, false), std::pair(Op::kAllGather, true));
}

TEST(Ops, CollectivesSendWhatARingSends) {
  Graph graph;
  const ValueId x = add_input(graph, "x", {4, 6});
  const Attributes attributes{.group = kTpMask, .group_size = 4, .dim = 0};
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter})
    graph.add_node(node_of(op, {x}, attributes));
  const auto sent = [&](size_t i) { return info(graph.nodes[i].op).cost(graph, graph.nodes[i]).sent_bytes; };
  EXPECT_EQ(sent(0), 2 * 0.75 * 96);
  EXPECT_EQ(sent(1), 0.75 * 4 * 96);
  EXPECT_EQ(sent(2), 0.75 * 96);
}

TEST(Ops, GradientsOfValuesLieAsTheirDuals) {
  Graph graph;
  const ValueId x = add_input(graph, "x", {2, 4});
  graph.value(x).places[0] = {Placement::kBroadcast, -1};
  graph.value(x).places[1] = {Placement::kSharded, 1};
  graph.value(x).places[2] = {Placement::kPartial, -1};
  const auto gradients =
      differentiate(graph, node_of(Op::kActivation, {x}, {.activation = ActivationKind::kGeluErf}));
  const Places& places = graph.value(gradients[0]).places;
  EXPECT_EQ(places[0].kind, Placement::kPartial);
  EXPECT_EQ(places[1], (Place{Placement::kSharded, 1}));
  EXPECT_EQ(places[2].kind, Placement::kReplicated);
}

TEST(Graph, NamesStayUnique) {
  Graph graph;
  EXPECT_EQ(graph.value(add_input(graph, "a", {1})).name, "a");
  EXPECT_EQ(graph.value(add_input(graph, "a", {1})).name, "a.2");
  EXPECT_EQ(graph.value(add_input(graph, "a.3", {1})).name, "a.3");
  EXPECT_EQ(graph.value(add_input(graph, "a", {1})).name, "a.4");
  std::set<std::string> names;
  for (const Value& value : TinyModel{.gpt2 = true}.build({.batch = 1, .sequence = 4}).values)
    EXPECT_TRUE(names.insert(value.name).second) << value.name;
}

}  // namespace
}  // namespace ingot::graph
