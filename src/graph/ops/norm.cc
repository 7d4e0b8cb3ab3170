// norm: layer norm or RMS norm over the last dimension; fused with the residual it gives the sum too.
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {

void norm_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  Value y = output_like(graph.value(node.inputs[0]));
  const bool with_residual = graph.value(node.inputs[1]).stored.rank() > 1;
  if (with_residual) {
    Value sum = y;
    sum.name = "sum";
    outputs.push_back(std::move(sum));
  }
  outputs.push_back(std::move(y));
}

void norm_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  const ValueId x = forward.inputs[0], w = forward.inputs[1], dy = outputs[0];
  inputs[0] = add_gradients(graph, forward, Op::kNormDx, {x, w, dy}, {x}, forward.attributes)[0];
  std::vector<ValueId> weights{w};
  if (forward.inputs.size() > 2) weights.push_back(forward.inputs[2]);
  add_accumulation(graph, forward, Op::kNormDw, {x, dy}, weights);
}

// Follows its input, whose last dimension must be whole; on a cut sequence the work on the weight is split.
void norm_partition(PartitionContext& context, const Node& node) {
  std::vector<ValueId> inputs = context.inputs_of(node);
  const Place place = context.place(inputs[0]);
  if (place.kind == Placement::kSharded && place.dim + 1 == context.value(inputs[0]).stored.rank())
    inputs[0] = context.to_residual(context.convert(inputs[0], {Placement::kReplicated, -1}));
  const bool split = context.place(inputs[0]).kind == Placement::kSharded;
  for (size_t i = 1; i < inputs.size(); ++i) context.use(inputs[i], split);
  context.emit(node, std::move(inputs));
}

}  // namespace ingot::graph
