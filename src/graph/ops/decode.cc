// cache_append, attention_cached: one or a few new tokens against keys and values kept from before.
#include "graph/ops/partition_context.h"
#include "graph/ops/rules.h"

namespace ingot::graph {

// Caches lie as the new keys do: cut by heads over kv, the same over kv_replica.
void cache_append_partition(PartitionContext& context, const Node& node) {
  const std::vector<ValueId> inputs = context.inputs_of(node);
  const Value key = context.value(inputs[0]);
  for (const size_t cache : {3U, 4U}) {
    Value& value = context.value(inputs[cache]);
    value.stored.set(2, key.stored.last());
    value.places = key.places;
  }
  context.emit(node, inputs);
}

void attention_cached_shape(const Graph& graph, const Node& node, Outputs& outputs) {
  outputs.push_back(output_like(graph.value(node.inputs[0])));
}

// Every slot of the cache, as planned: how many are filled is data.
OpCost attention_cached_cost(const Graph& graph, const Node& node) {
  const double slots = static_cast<double>(graph.value(node.inputs[1]).stored[1]);
  return {.flops = 4.0 * elements_of(graph, node.inputs[0]) * slots, .bytes = bytes_of(graph, node)};
}

void attention_cached_partition(PartitionContext& context, const Node& node) {
  const std::vector<ValueId> inputs = context.inputs_of(node);
  context.emit(node, inputs);
}

}  // namespace ingot::graph
