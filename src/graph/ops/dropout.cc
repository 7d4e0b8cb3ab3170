// dropout: zeroes elements by counter-based random numbers of (site, sample, position, column); its own
// gradient.
#include "base/check.h"
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {

void dropout_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  std::vector<ValueId> operands = forward.inputs;
  operands[0] = outputs[0];
  inputs[0] = add_gradients(graph, forward, Op::kDropout, std::move(operands), {forward.inputs[0]},
                            forward.attributes)[0];
}

// The element's number in its sample is position * C + column: columns are whole, positions follow the
// sequence.
void dropout_partition(PartitionContext& context, const Node& node) {
  std::vector<ValueId> inputs = context.inputs_of(node);
  const Place place = context.place(inputs[0]);
  INGOT_CHECK(place.kind != Placement::kSharded || place.dim == 1,
              "{} is cut along dimension {}: no dropout there", context.value(inputs[0]).name, place.dim);
  if (place.kind == Placement::kSharded) inputs[2] = context.convert(inputs[2], place);
  context.emit(node, std::move(inputs));
}

}  // namespace ingot::graph
