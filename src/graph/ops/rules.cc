#include "graph/ops/rules.h"

#include "base/check.h"

namespace ingot::graph {

Value output_like(const Value& from) {
  Value value;
  value.logical = from.logical;
  value.stored = from.stored;
  value.dtype = from.dtype;
  value.places = from.places;
  value.bound = from.bound;
  value.space = from.space;
  if (from.role == Role::kData || from.role == Role::kParameter) {
    value.role = from.role;
    value.parameter = from.parameter;
  }
  return value;
}

Value output_with_last(const Value& from, int64_t logical, int64_t stored) {
  Value value = output_like(from);
  value.logical.set(value.logical.rank() - 1, logical);
  value.stored.set(value.stored.rank() - 1, stored);
  return value;
}

void shape_as_input(const Graph& graph, const Node& node, Outputs& outputs) {
  outputs.push_back(output_like(graph.value(node.inputs[0])));
}

double bytes_of(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for (const ValueId input : node.inputs) bytes += graph.value(input).bytes();
  for (const ValueId output : node.outputs) bytes += graph.value(output).bytes();
  return static_cast<double>(bytes);
}

OpCost cost_of_bytes(const Graph& graph, const Node& node) { return {.bytes = bytes_of(graph, node)}; }

double elements_of(const Graph& graph, ValueId value) {
  return static_cast<double>(graph.value(value).stored.elements());
}

std::vector<ValueId> add_gradients(Graph& graph, const Node& forward, Op op, std::vector<ValueId> inputs,
                                   const std::vector<ValueId>& of, const Attributes& attributes) {
  Node node{.op = op, .phase = Phase::kBackward, .layer = forward.layer, .inputs = std::move(inputs)};
  node.attributes = attributes;
  for (const ValueId primal : of) {
    Value gradient = output_like(graph.value(primal));
    gradient.name = "d." + graph.value(primal).name;
    for (Place& place : gradient.places) place = gradient_place(place);
    node.outputs.push_back(graph.add_value(std::move(gradient)));
  }
  return graph.add_node(std::move(node));
}

void add_accumulation(Graph& graph, const Node& forward, Op op, std::vector<ValueId> inputs,
                      const std::vector<ValueId>& weights) {
  Node node{.op = op, .phase = Phase::kBackward, .layer = forward.layer, .inputs = std::move(inputs)};
  node.attributes = forward.attributes;
  for (const ValueId weight : weights) {
    const int parameter = graph.value(weight).parameter;
    INGOT_CHECK(parameter >= 0, "{} accumulates into {}, which is no parameter", info(op).name,
                graph.value(weight).name);
    node.outputs.push_back(graph.gradient_value(parameter));
  }
  graph.add_node(std::move(node));
}

}  // namespace ingot::graph
