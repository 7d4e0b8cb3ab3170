// Who holds what along the data axes: buckets and their buffers (buckets.cc), parameters gathered where a
// rank keeps a shard (gathers.cc), copies of parameters made once a step, and sums of gradients
// (reductions.cc).

#include <fmt/format.h>

#include <algorithm>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

Result<void> check_groups(const Layout& layout, bool trains) {
  const int groups = layout.determinism_groups, dp = layout.mesh.group_size(kDpMask);
  if (groups == 0) return {};
  if (layout.zero_stage > 1) {
    return invalid(
        fmt::format("run.determinism \"layout\" adds up gradients by groups of micro-batches, and with "
                    "parallel.zero_stage "
                    "{} a rank keeps too little of them for that; use zero_stage 0 or 1",
                    layout.zero_stage));
  }
  if (groups % dp != 0) {
    return invalid(fmt::format(
        "run.determinism_groups is {}, which parallel.dp {} does not divide; use a multiple of {}", groups,
        dp, dp));
  }
  if (layout.zero_stage > 0 && layout.mesh.size(Axis::kReplica) > 1)
    return invalid(
        "run.determinism \"layout\" shares out state over all of dp; leave out parallel.zero_group");
  if (trains && layout.micro_batches * dp % groups != 0) {
    return invalid(fmt::format(
        "a step of {} micro-batches does not make {} equal groups, as run.determinism_groups says; use a "
        "multiple of {} micro-batches, or fewer groups",
        layout.micro_batches * dp, groups, groups));
  }
  return {};
}

Result<void> check_layout(const Layout& layout, bool trains) {
  INGOT_TRY_VOID(check_groups(layout, trains));
  const std::vector<int>& numbers = layout.replica_micro_batches;
  const bool unequal = std::ranges::any_of(numbers, [&](int m) { return m != numbers.front(); });
  if (unequal && layout.determinism_groups > 0)
    return invalid("run.determinism \"layout\" needs as many micro-batches on every replica");
  if (layout.zero_stage < 2 || !unequal) return {};
  return invalid(fmt::format(
      "replicas take from {} to {} micro-batches, and with parallel.zero_stage {} each micro-batch makes "
      "collectives that all must make; use zero_stage 0 or 1, or equal numbers",
      std::ranges::min(numbers), std::ranges::max(numbers), layout.zero_stage));
}

// A node of parameters alone runs once after they change, not in every micro-batch: it moves to begin, and
// what it makes is a derived buffer.
void hoist(Draft& draft, Graph& graph, Graph& finish) {
  std::vector<Node> kept;
  kept.reserve(graph.nodes.size());
  for (Node& node : graph.nodes) {
    const bool invariant = !node.inputs.empty() && !info(node.op).collective &&
                           std::ranges::all_of(node.inputs, [&](ValueId id) {
                             return graph.value(id).role == Role::kParameter && graph.value(id).buffer >= 0;
                           });
    if (!invariant) {
      kept.push_back(std::move(node));
      continue;
    }
    for (const ValueId id : node.outputs) {
      Value& value = graph.value(id);
      value.role = Role::kParameter;
      value.parameter = graph.value(node.inputs[0]).parameter;
      const std::string& parameter = graph.parameters[static_cast<size_t>(value.parameter)].name;
      const std::string scaled = node.attributes.scale != 0 ? fmt::format(".x{}", node.attributes.scale) : "";
      BufferPlan buffer;
      buffer.name =
          fmt::format("{}.{}.{}{}", info(node.op).name, parameter, tensor::name_of(value.dtype), scaled);
      buffer.space = Space::kDerived;
      buffer.dtype = value.dtype;
      buffer.elements = value.stored.elements();
      buffer.memory = draft.options.targets[0]->space;
      value.buffer = draft.add_buffer(std::move(buffer));
      value.buffer_offset = 0;
    }
    for (std::vector<ValueId>* operands : {&node.inputs, &node.outputs})
      for (ValueId& id : *operands) id = finish.add_value(graph.value(id));
    node.phase = Phase::kBegin;
    finish.nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
}

}  // namespace

Result<void> shard_data(Draft& draft) {
  INGOT_TRY_VOID(check_layout(draft.options.layout, draft.options.purpose == Purpose::kTrain));
  make_buckets(draft);
  Graph finish;
  finish.parameters = draft.chunks.front().parameters;
  finish.layers = draft.chunks.front().layers;
  for (Graph& chunk : draft.chunks) hoist(draft, chunk, finish);
  gather_parameters(draft);
  INGOT_TRY_VOID(reduce_gradients(draft, finish));
  draft.finish = static_cast<int>(draft.chunks.size());
  draft.chunks.push_back(std::move(finish));
  return {};
}

}  // namespace ingot::graph
