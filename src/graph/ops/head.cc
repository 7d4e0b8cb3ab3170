// head_stats, head_loss: output projection with cross-entropy, by chunks of rows, so that [B*T, V] never
// exists.
#include "base/check.h"
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {
namespace {

constexpr size_t kInput = 0, kWeight = 1, kLabels = 2;

// One product of all rows with this rank's part of the vocabulary. Not from the weight: it may be packed.
double product_flops(const Graph& graph, const Node& node) {
  const int64_t parts = node.attributes.group_size;
  const int64_t rows = (node.attributes.vocabulary + parts - 1) / parts;
  return 2.0 * elements_of(graph, node.inputs[kInput]) * static_cast<double>(rows);
}

}  // namespace

void head_stats_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  Value stats = output_with_last(graph.value(node.inputs[kInput]), 3, 3);
  if (stats.dtype != DType::kF64) stats.dtype = DType::kF32;
  outputs.push_back(std::move(stats));
}

OpCost head_stats_cost(const Graph& graph, const Node& node) {
  return {.flops = product_flops(graph, node), .bytes = bytes_of(graph, node)};
}

// The loss alone is one product (none where statistics come from head_stats); with gradient three.
OpCost head_loss_cost(const Graph& graph, const Node& node) {
  const bool has_stats = node.attributes.group_size > 1;
  const double products = node.attributes.with_gradient ? 3 : has_stats ? 0 : 1;
  return {.flops = products * product_flops(graph, node), .bytes = bytes_of(graph, node)};
}

// The root of differentiation: the forward node itself makes both gradients, seeded by the loss scale.
void head_loss_derivative(Graph& graph, int node, Gradients, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  INGOT_CHECK(!forward.attributes.with_gradient, "head_loss is differentiated twice");
  const ValueId x = forward.inputs[kInput];
  Value gradient = output_like(graph.value(x));
  gradient.name = "d." + graph.value(x).name;
  for (Place& place : gradient.places) place = gradient_place(place);
  const ValueId dx = graph.add_value(std::move(gradient));
  const ValueId dw = graph.gradient_value(graph.value(forward.inputs[kWeight]).parameter);
  Node& rewritten = graph.nodes[static_cast<size_t>(node)];
  rewritten.attributes.with_gradient = true;
  rewritten.outputs.push_back(dx);
  rewritten.outputs.push_back(dw);
  inputs[kInput] = dx;
}

// A vocabulary cut over tp: every rank's maximum, sum and target logit are gathered first; each counts its
// share of the loss.
void head_loss_partition(PartitionContext& context, const Node& node) {
  std::vector<ValueId> inputs = context.inputs_of(node);
  Attributes attributes = node.attributes;
  const int parts = context.mesh().group_size(kTpMask);
  attributes.weight = 1.0 / parts;
  if (context.place(inputs[kWeight]).kind != Placement::kSharded) {
    inputs[kInput] = context.convert(inputs[kInput], {Placement::kReplicated, -1});
    context.emit(node, std::move(inputs), attributes);
    return;
  }
  inputs[kInput] = context.convert(inputs[kInput], {Placement::kBroadcast, -1});
  attributes.group = kTpMask;
  attributes.group_size = parts;
  const ValueId stats = context.insert(
      Op::kHeadStats, {inputs[kInput], inputs[kWeight], inputs[kLabels]},
      {.group = kTpMask, .group_size = parts, .vocabulary = attributes.vocabulary}, node.layer);
  const ValueId gathered =
      context.insert(Op::kAllGather, {stats}, {.group = kTpMask, .group_size = parts, .dim = 2}, node.layer);
  context.set_place(gathered, kTpMask, {Placement::kReplicated, -1});
  inputs.push_back(gathered);
  context.emit(node, std::move(inputs), attributes);
}

}  // namespace ingot::graph
