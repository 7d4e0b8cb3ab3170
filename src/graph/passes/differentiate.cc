#include <algorithm>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

bool is_parameter(const Graph& graph, ValueId id) {
  return id != kNoValue && graph.value(id).role == Role::kParameter;
}

// Per value: an activation that depends on parameters, and so has a gradient.
std::vector<bool> differentiable(const Graph& graph) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    bool depends = node.op == Op::kReceive;
    for (const ValueId input : node.inputs)
      depends = depends || is_parameter(graph, input) || result[static_cast<size_t>(input)];
    for (const ValueId output : node.outputs)
      result[static_cast<size_t>(output)] = depends && graph.value(output).role == Role::kActivation;
  }
  return result;
}

bool has_effect(const Graph& graph, const Node& node) {
  if (node.op == Op::kSend) return true;
  return std::ranges::any_of(node.outputs, [&](ValueId id) {
    return graph.value(id).role == Role::kGradient || graph.value(id).role == Role::kState;
  });
}

// Derivative rules also write gradients that nobody asked for (of data, of the first activation): drop those
// nodes.
void drop_unused(Graph& graph, size_t first) {
  std::vector<bool> used(graph.values.size(), false);
  std::vector<Node> kept;
  for (size_t k = graph.nodes.size(); k-- > first;) {
    Node& node = graph.nodes[k];
    const bool wanted = has_effect(graph, node) || std::ranges::any_of(node.outputs, [&](ValueId id) {
                          return bool{used[static_cast<size_t>(id)]};
                        });
    if (!wanted) continue;
    for (const ValueId input : node.inputs) used[static_cast<size_t>(input)] = true;
    kept.push_back(std::move(node));
  }
  graph.nodes.resize(first);
  std::ranges::move(kept.rbegin(), kept.rend(), std::back_inserter(graph.nodes));
}

class Differentiation {
 public:
  explicit Differentiation(Graph& graph) : graph_(graph), differentiable_(differentiable(graph)) {
    gradients_.assign(graph.values.size(), kNoValue);
  }

  void run() {
    const size_t forward = graph_.nodes.size();
    for (size_t k = forward; k-- > 0;) step(static_cast<int>(k));
    drop_unused(graph_, forward);
  }

 private:
  bool wants_gradient(const Node& node) const {
    if (node.op == Op::kReceive) return true;
    return std::ranges::any_of(node.inputs, [&](ValueId id) {
      return is_parameter(graph_, id) || differentiable_[static_cast<size_t>(id)];
    });
  }

  void step(int index) {
    const OpInfo& op = info(graph_.nodes[static_cast<size_t>(index)].op);
    const Node node = graph_.nodes[static_cast<size_t>(index)];
    // A copy of a parameter is a parameter: its gradient goes straight into the accumulator.
    if (!node.outputs.empty() &&
        std::ranges::all_of(node.outputs, [&](ValueId id) { return is_parameter(graph_, id); }))
      return;
    std::vector<ValueId> outputs(node.outputs.size(), kNoValue);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = gradients_[static_cast<size_t>(node.outputs[i])];
    const bool root = node.op == Op::kHeadLoss || node.op == Op::kSend;
    const bool reached = root || std::ranges::any_of(outputs, [](ValueId id) { return id != kNoValue; });
    if (!reached || !wants_gradient(node)) return;
    INGOT_CHECK(op.derivative != nullptr, "operation {} of layer {} has no derivative", op.name, node.layer);
    std::vector<ValueId> inputs(node.inputs.size(), kNoValue);
    op.derivative(graph_, index, outputs, inputs);
    gradients_.resize(graph_.values.size(), kNoValue);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] != kNoValue) accumulate(node.inputs[i], inputs[i], node.layer);
  }

  void accumulate(ValueId value, ValueId gradient, int layer) {
    if (!differentiable_[static_cast<size_t>(value)]) return;
    ValueId& sum = gradients_[static_cast<size_t>(value)];
    if (sum == kNoValue) {
      sum = gradient;
      return;
    }
    Value total = graph_.value(gradient);
    total.name = "d." + graph_.value(value).name + ".sum";
    const ValueId output = graph_.add_value(std::move(total));
    Node add;
    add.op = Op::kAdd;
    add.phase = Phase::kBackward;
    add.layer = layer;
    add.inputs = {sum, gradient};
    add.outputs = {output};
    graph_.add_node(std::move(add));
    gradients_.resize(graph_.values.size(), kNoValue);
    gradients_[static_cast<size_t>(value)] = output;
  }

  Graph& graph_;
  std::vector<bool> differentiable_;
  std::vector<ValueId> gradients_;
};

}  // namespace

void differentiate(Graph& graph) { Differentiation(graph).run(); }

}  // namespace ingot::graph
