// add: the sum of two values of one shape and data type.
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {

void add_derivative(Graph&, int, Gradients outputs, InputGradients inputs) {
  inputs[0] = inputs[1] = outputs[0];
}

void add_partition(PartitionContext& context, const Node& node) {
  std::vector<ValueId> inputs = context.inputs_of(node);
  if (context.place(inputs[0]) != context.place(inputs[1]))
    for (ValueId& input : inputs) input = context.to_residual(input);
  context.emit(node, std::move(inputs));
}

}  // namespace ingot::graph
