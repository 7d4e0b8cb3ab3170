// activation: elementwise functions; swiglu takes two inputs, silu(gate) * up.
#include "graph/ops/rules.h"

namespace ingot::graph {

void activation_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  std::vector<ValueId> operands = forward.inputs;
  operands.push_back(outputs[0]);
  const auto made = add_gradients(graph, forward, Op::kActivationGrad, std::move(operands), forward.inputs,
                                  forward.attributes);
  for (size_t i = 0; i < made.size(); ++i) inputs[i] = made[i];
}

void activation_grad_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  for (size_t i = 0; i + 1 < node.inputs.size(); ++i)
    outputs.push_back(output_like(graph.value(node.inputs[i])));
}

}  // namespace ingot::graph
