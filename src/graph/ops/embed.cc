// embed: rows of a table picked by ids.
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {

void embed_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  const Value& ids = graph.value(node.inputs[0]);
  const Value& table = graph.value(node.inputs[1]);
  Value x;
  x.logical = {ids.logical[0], ids.logical[1], table.logical[1]};
  x.stored = {ids.stored[0], ids.stored[1], table.stored[1]};
  x.dtype = table.dtype;
  x.places = ids.places;
  outputs.push_back(std::move(x));
}

void embed_derivative(Graph& graph, int node, Gradients outputs, InputGradients) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  add_accumulation(graph, forward, Op::kEmbedDw, {forward.inputs[0], outputs[0]}, {forward.inputs[1]});
}

// Reads one row per id and writes it (the gradient reads the row of its sum too), never the whole table.
OpCost embed_cost(const Graph& graph, const Node& node) {
  const bool backward = node.op == Op::kEmbedDw;
  const Value& rows = graph.value(backward ? node.inputs[1] : node.outputs[0]);
  const auto row_bytes =
      static_cast<double>(rows.stored.elements()) *
      static_cast<double>(tensor::size_of(graph.value(backward ? node.outputs[0] : node.inputs[1]).dtype));
  return {.bytes = static_cast<double>(graph.value(node.inputs[0]).bytes() + rows.bytes()) +
                   row_bytes * (backward ? 2 : 1)};
}

// A table cut by rows gives a partial sum (other ranks' ids make zeros); a whole one is read for this rank's
// part of the sequence only.
void embed_partition(PartitionContext& context, const Node& node) {
  std::vector<ValueId> inputs = context.inputs_of(node);
  Attributes attributes = node.attributes;
  if (context.place(inputs[1]).kind == Placement::kSharded) {
    inputs[0] = context.convert(inputs[0], {Placement::kReplicated, -1});
    attributes.group = kTpMask;
    attributes.group_size = context.mesh().group_size(kTpMask);
    const ValueId x = context.emit(node, std::move(inputs), attributes)[0];
    context.set_place(x, kTpMask, {Placement::kPartial, -1});
    context.map(node.outputs[0], context.to_residual(x));
    return;
  }
  if (context.sequence()) inputs[0] = context.convert(inputs[0], {Placement::kSharded, 1});
  context.use(inputs[1], context.place(inputs[0]).kind == Placement::kSharded);
  context.emit(node, std::move(inputs), attributes);
}

}  // namespace ingot::graph
