// rotary: rotation of halves of each head by an angle that grows with the position (RoFormer,
// arXiv:2104.09864).
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {

void rotary_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  Attributes attributes = forward.attributes;
  attributes.inverse = !attributes.inverse;
  std::vector<ValueId> operands = forward.inputs;
  operands[0] = outputs[0];
  inputs[0] =
      add_gradients(graph, forward, Op::kRotary, std::move(operands), {forward.inputs[0]}, attributes)[0];
}

// Heads may lie anywhere; a cut sequence needs the same part of the positions.
void rotary_partition(PartitionContext& context, const Node& node) {
  std::vector<ValueId> inputs = context.inputs_of(node);
  Place place = context.place(inputs[0], mask_of(Axis::kKv));
  if (context.mesh().size(Axis::kKv) == 1) place = context.place(inputs[0], mask_of(Axis::kKvReplica));
  if (place.kind == Placement::kSharded && place.dim == 1)
    for (size_t i = 1; i < inputs.size(); ++i) inputs[i] = context.convert(inputs[i], place);
  context.emit(node, std::move(inputs));
}

}  // namespace ingot::graph
