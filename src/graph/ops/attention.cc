// attention: causal within a document, by positions that are data; query heads share key-value heads in
// groups.
#include "base/check.h"
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {
namespace {

constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kFirstData = 3, kKeyPosition = 4;

// Of the forward: scores and their product with v, 2 * 2 * B * Tq * Tk * H * D, half of it below the
// diagonal.
double forward_flops(const Value& query, const Value& key) {
  return 0.5 * 4.0 * static_cast<double>(query.stored.elements()) * static_cast<double>(key.stored[1]);
}

}  // namespace

void attention_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  const Value& q = graph.value(node.inputs[kQuery]);
  const int64_t head = node.attributes.head_dim;
  INGOT_CHECK(head > 0 && q.stored.last() % head == 0, "{} {} in heads of {}", q.name, q.stored.to_string(),
              head);
  INGOT_CHECK(q.stored.last() % graph.value(node.inputs[kKey]).stored.last() == 0,
              "query heads of {} are no multiple of the key heads of {}", q.name,
              graph.value(node.inputs[kKey]).name);
  outputs.push_back(output_like(q));
  Value lse = output_with_last(q, q.logical.last() / head, q.stored.last() / head);
  lse.name = "lse";
  if (lse.dtype != DType::kF64) lse.dtype = DType::kF32;
  outputs.push_back(std::move(lse));
}

void attention_derivative(Graph& graph, int node, Gradients outputs, InputGradients inputs) {
  const Node forward = graph.nodes[static_cast<size_t>(node)];
  const std::vector<ValueId>& in = forward.inputs;
  std::vector<ValueId> operands{in[kQuery],         in[kKey],           in[kValue],
                                forward.outputs[0], forward.outputs[1], outputs[0]};
  operands.insert(operands.end(), in.begin() + kFirstData, in.end());
  const auto made = add_gradients(graph, forward, Op::kAttentionGrad, std::move(operands),
                                  {in[kQuery], in[kKey], in[kValue]}, forward.attributes);
  for (size_t i = 0; i < made.size(); ++i) inputs[i] = made[i];
}

void attention_grad_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  for (const size_t i : {kQuery, kKey, kValue}) outputs.push_back(output_like(graph.value(node.inputs[i])));
}

// Kept as wide as statistics are: a sum of many parts that each are rounded once.
void attention_merge_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  const Value &o = graph.value(node.inputs[0]), &lse = graph.value(node.inputs[1]);
  outputs.push_back(output_like(o));
  outputs.back().dtype = lse.dtype;
  outputs.push_back(output_like(lse));
}

OpCost attention_cost(const Graph& graph, const Node& node) {
  return {.flops = forward_flops(graph.value(node.inputs[kQuery]), graph.value(node.inputs[kKey])),
          .bytes = bytes_of(graph, node)};
}

OpCost attention_grad_cost(const Graph& graph, const Node& node) {
  return {.flops = 2.0 * forward_flops(graph.value(node.inputs[kQuery]), graph.value(node.inputs[kKey])),
          .bytes = bytes_of(graph, node)};
}

// Heads are cut, T is whole on tp: queries over tp, keys and values over kv and shared over kv_replica. On cp
// each rank has its part of the queries and gathers keys and values, with their positions.
void attention_partition(PartitionContext& context, const Node& node) {
  std::vector<ValueId> inputs = context.inputs_of(node);
  const Place query = context.place(inputs[kQuery]);
  const Place key = context.place(inputs[kKey], mask_of(Axis::kKv));
  const bool cut = query.kind == Placement::kSharded && query.dim == 2;
  INGOT_CHECK(cut || query.kind == Placement::kReplicated, "{} is neither whole nor cut by heads",
              context.value(inputs[kQuery]).name);
  INGOT_CHECK(!cut || context.mesh().size(Axis::kKv) == 1 || key == query, "{} is not cut as {}",
              context.value(inputs[kKey]).name, context.value(inputs[kQuery]).name);
  for (const size_t i : {kKey, kValue})
    inputs[i] = context.convert(inputs[i], {Placement::kBroadcast, -1}, kCpMask);
  inputs[kKeyPosition] = context.convert(inputs[kKeyPosition], {Placement::kReplicated, -1}, kCpMask);
  context.emit(node, std::move(inputs));
}

}  // namespace ingot::graph
