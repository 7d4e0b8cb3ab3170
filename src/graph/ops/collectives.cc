// Collectives and transfers: conversions of placement, each with its dual as derivative.
#include "base/check.h"
#include "graph/ops/rules.h"

namespace ingot::graph {
namespace {

// A ring over n ranks sends (n - 1) / n of the whole once.
double ring_share(const Node& node) {
  const double n = node.attributes.group_size;
  return (n - 1) / n;
}

Value resized(const Graph& graph, const Node& node, bool grow) {
  Value value = output_like(graph.value(node.inputs[0]));
  const int dim = node.attributes.dim;
  const int64_t extent = value.stored[dim], parts = node.attributes.group_size;
  INGOT_CHECK(grow || extent % parts == 0, "dimension {} of {} in {} parts", dim, extent, parts);
  value.stored.set(dim, grow ? extent * parts : extent / parts);
  return value;
}

ValueId dual(Graph& graph, int node, Op op, ValueId gradient) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  return add_gradients(graph, forward, op, {gradient}, {forward.inputs[0]}, forward.attributes)[0];
}

}  // namespace

void all_gather_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  outputs.push_back(resized(graph, node, true));
}

void split_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  outputs.push_back(resized(graph, node, false));
}

void all_reduce_derivative(Graph&, int, Gradients outputs, InputGradients inputs) { inputs[0] = outputs[0]; }

void all_gather_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const bool partial = graph.nodes[static_cast<size_t>(node)].attributes.gradient_partial;
  inputs[0] = dual(graph, node, partial ? Op::kReduceScatter : Op::kSlice, outputs[0]);
}

void split_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  inputs[0] = dual(graph, node, Op::kAllGather, outputs[0]);
}

// The sum over the group of the partial gradients, so whole: its place is R.
void broadcast_grad_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  inputs[0] = dual(graph, node, Op::kAllReduce, outputs[0]);
}

void send_derivative(Graph& graph, int node, Gradients, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  inputs[0] = add_gradients(graph, forward, Op::kReceive, {}, {forward.inputs[0]}, forward.attributes)[0];
}

void receive_derivative(Graph& graph, int node, Gradients outputs, InputGradients) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  Node send{.op = Op::kSend, .phase = Phase::kBackward, .layer = forward.layer, .inputs = {outputs[0]}};
  send.attributes = forward.attributes;
  graph.add_node(std::move(send));
}

OpCost all_reduce_cost(const Graph& graph, const Node& node) {
  const auto bytes = static_cast<double>(graph.value(node.inputs[0]).bytes());
  return {.bytes = bytes_of(graph, node), .sent_bytes = 2 * ring_share(node) * bytes};
}

OpCost all_gather_cost(const Graph& graph, const Node& node) {
  const auto bytes = static_cast<double>(graph.value(node.outputs[0]).bytes());
  return {.bytes = bytes_of(graph, node), .sent_bytes = ring_share(node) * bytes};
}

OpCost reduce_scatter_cost(const Graph& graph, const Node& node) {
  const auto bytes = static_cast<double>(graph.value(node.inputs[0]).bytes());
  return {.bytes = bytes_of(graph, node), .sent_bytes = ring_share(node) * bytes};
}

void ring_shift_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  for (const ValueId input : node.inputs) outputs.push_back(output_like(graph.value(input)));
}

// Each operand goes to one neighbour.
OpCost ring_shift_cost(const Graph& graph, const Node& node) {
  int64_t sent = 0;
  for (const ValueId input : node.inputs) sent += graph.value(input).bytes();
  return {.bytes = bytes_of(graph, node), .sent_bytes = static_cast<double>(sent)};
}

// Of equal parts each member keeps its own.
OpCost all_to_all_cost(const Graph& graph, const Node& node) {
  const auto bytes = static_cast<double>(graph.value(node.inputs[0]).bytes());
  return {.bytes = bytes_of(graph, node), .sent_bytes = ring_share(node) * bytes};
}

OpCost send_cost(const Graph& graph, const Node& node) {
  const auto bytes = static_cast<double>(graph.value(node.inputs[0]).bytes());
  return {.bytes = bytes, .sent_bytes = bytes};
}

OpCost no_cost(const Graph&, const Node&) { return {}; }

}  // namespace ingot::graph
