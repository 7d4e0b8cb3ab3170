// linear: y = x w^T + bias, its two gradients each a node of its own.
#include "base/check.h"
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {
namespace {

// 2 m n k of a product with `elements` inputs, each meeting `last` weights. Not from the weight itself: it
// may be packed.
double product_flops(const Graph& graph, ValueId elements, ValueId last) {
  return 2.0 * elements_of(graph, elements) * static_cast<double>(graph.value(last).stored.last());
}

}  // namespace

void linear_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  const Value& x = graph.value(node.inputs[0]);
  const Value& w = graph.value(node.inputs[1]);
  INGOT_CHECK(x.stored.last() == w.stored[1], "{} [.., {}] meets {} {}", x.name, x.stored.last(), w.name,
              w.stored.to_string());
  Value y = output_with_last(x, w.logical[0], w.stored[0]);
  y.dtype = w.dtype;
  outputs.push_back(y);
  if (node.attributes.activation != ActivationKind::kNone) {
    y.name = "before";
    outputs.push_back(std::move(y));
  }
}

void linear_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  const ValueId x = forward.inputs[0], w = forward.inputs[1], dy = outputs[0];
  inputs[0] = add_gradients(graph, forward, Op::kLinearDx, {dy, w}, {x}, forward.attributes)[0];
  std::vector<ValueId> weights{w};
  if (forward.inputs.size() > 2) weights.push_back(forward.inputs[2]);
  add_accumulation(graph, forward, Op::kLinearDw, {x, dy}, weights);
}

void linear_dx_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  const Value& w = graph.value(node.inputs[1]);
  outputs.push_back(output_with_last(graph.value(node.inputs[0]), w.logical[1], w.stored[1]));
}

OpCost linear_cost(const Graph& graph, const Node& node) {
  return {.flops = product_flops(graph, node.inputs[0], node.outputs[0]), .bytes = bytes_of(graph, node)};
}

OpCost linear_dx_cost(const Graph& graph, const Node& node) {
  return {.flops = product_flops(graph, node.inputs[0], node.outputs[0]), .bytes = bytes_of(graph, node)};
}

OpCost linear_dw_cost(const Graph& graph, const Node& node) {
  return {.flops = product_flops(graph, node.inputs[0], node.inputs[1]), .bytes = bytes_of(graph, node)};
}

// Weight cut by rows (or its outputs read for a part of the work only): x is broadcast, y is cut along its
// last dimension. Cut by columns: x must be cut so, y is a partial sum, and every rank adds its share of the
// bias. Whole: y lies as x does.
void linear_partition(PartitionContext& context, const Node& node) {
  std::vector<ValueId> inputs = context.inputs_of(node);
  const Places& weight = context.value(inputs[1]).places;
  AxisMask rows = 0, columns = 0, shared = 0;
  for (int axis = 0; axis < kAxisCount; ++axis) {
    const Place place = weight[static_cast<size_t>(axis)];
    const AxisMask mask = mask_of(static_cast<Axis>(axis));
    if (place.kind == Placement::kBroadcast) shared |= mask;
    if (place.kind == Placement::kSharded) (place.dim == 0 ? rows : columns) |= mask;
  }
  const auto last = static_cast<int8_t>(context.value(inputs[0]).stored.rank() - 1);
  if (columns != 0) {
    inputs[0] = context.convert(inputs[0], {Placement::kSharded, last}, columns);
    if (inputs.size() > 2) {
      context.use(inputs[2], false);
      Attributes share;
      share.scale = 1.0 / context.mesh().group_size(columns);
      inputs[2] = context.insert(Op::kCast, {inputs[2]}, share, node.layer);
    }
    const ValueId y = context.emit(node, std::move(inputs))[0];
    context.set_place(y, columns, {Placement::kPartial, -1});
    context.map(node.outputs[0], context.to_residual(y));
    return;
  }
  const auto split = static_cast<AxisMask>(rows | shared);
  if (split != 0) {
    inputs[0] = context.convert(inputs[0], {Placement::kBroadcast, -1}, split);
    const ValueId y = context.emit(node, std::move(inputs))[0];
    context.set_place(y, rows, {Placement::kSharded, last});
    context.set_place(y, shared, {Placement::kBroadcast, -1});
    return;
  }
  const Place place = context.place(inputs[0]);
  INGOT_CHECK(place.kind != Placement::kSharded || place.dim != last, "{} is whole, its input {} is cut",
              context.value(inputs[1]).name, context.value(inputs[0]).name);
  for (size_t i = 1; i < inputs.size(); ++i) context.use(inputs[i], place.kind == Placement::kSharded);
  context.emit(node, std::move(inputs));
}

}  // namespace ingot::graph
