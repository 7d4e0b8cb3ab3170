// cast, copy: the same numbers in another data type or memory. pack, of weights only, has no derivative.
#include "graph/ops/rules.h"

namespace ingot::graph {
namespace {

// Copies of parameters have no gradient of their own: their readers add into the parameter's.
bool copies_parameter(const Graph& graph, const Node& node) {
  return graph.value(node.inputs[0]).role == Role::kParameter;
}

}  // namespace

void cast_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  if (copies_parameter(graph, forward)) return;
  inputs[0] =
      add_gradients(graph, forward, Op::kCast, {outputs[0]}, {forward.inputs[0]}, forward.attributes)[0];
}

void copy_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  if (copies_parameter(graph, forward)) return;
  inputs[0] =
      add_gradients(graph, forward, Op::kCopy, {outputs[0]}, {forward.inputs[0]}, forward.attributes)[0];
}

}  // namespace ingot::graph
