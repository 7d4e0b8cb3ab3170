// partition: cuts parameters and activations over tp by one table of axis names; every operation's own rule
// says which conversions it needs. Backward collectives follow by differentiation.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "graph/ops/partition_context.h"
#include "graph/passes/passes.h"

namespace ingot::graph {
namespace {

// Where a dimension of a parameter lies: cut over `cut`; held whole over `shared`, where each rank uses it
// for a part of the work. `padded`: filled up with zeros where it does not divide.
struct AxisRow {
  AxisName name;
  const char* word;
  AxisMask cut, shared;
  bool padded, by_heads;
};

constexpr std::array<AxisRow, 8> kAxisTable = {{
    {AxisName::kNone, "elements", 0, 0, false, false},
    {AxisName::kVocab, "tokens of the vocabulary", kTpMask, 0, true, false},
    {AxisName::kHeads, "heads", kTpMask, 0, false, true},
    {AxisName::kKvHeads, "key-value heads", mask_of(Axis::kKv), mask_of(Axis::kKvReplica), false, true},
    {AxisName::kFfn, "feed-forward units", kTpMask, 0, false, false},
    {AxisName::kEmbed, "hidden units", 0, 0, false, false},
    {AxisName::kExperts, "experts", mask_of(Axis::kEp), 0, false, false},
    {AxisName::kSequence, "positions", kCpMask, 0, false, false},
}};

const AxisRow& axis_row(AxisName name) {
  for (const AxisRow& row : kAxisTable)
    if (row.name == name) return row;
  INGOT_CHECK(false, "axis name {} has no row", static_cast<int>(name));
  return kAxisTable[0];
}

int head_size(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (node.op == Op::kAttention || node.op == Op::kAttentionCached) return node.attributes.head_dim;
  return 1;
}

// Extent of a dimension in the units that may not be cut.
int64_t units(const Parameter& parameter, size_t dim, int head_dim) {
  const int64_t extent = parameter.logical[static_cast<int>(dim)];
  return axis_row(parameter.axes[dim]).by_heads ? extent / head_dim : extent;
}

// True when tp ranks can share every dimension that is cut over tp.
bool tp_works(const Graph& graph, int head_dim, int tp) {
  for (const Parameter& parameter : graph.parameters) {
    for (size_t dim = 0; dim < parameter.axes.size(); ++dim) {
      const AxisRow& row = axis_row(parameter.axes[dim]);
      const int64_t extent = units(parameter, dim, head_dim);
      if ((row.cut & kTpMask) == 0 || row.padded || extent % tp == 0) continue;
      if (row.shared == 0 || tp % extent != 0) return false;
    }
  }
  return true;
}

std::string nearest_tp(const Graph& graph, int head_dim, int tp) {
  int below = 1, above = 0;
  for (int size = tp - 1; size > 1 && below == 1; --size)
    if (tp_works(graph, head_dim, size)) below = size;
  for (int size = tp + 1; size <= 64 * tp && above == 0; ++size)
    if (tp_works(graph, head_dim, size)) above = size;
  return above == 0 ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

Result<void> place_parameters(Graph& graph, const Mesh& mesh, int head_dim) {
  for (Parameter& parameter : graph.parameters) {
    parameter.places = {};
    parameter.stored = parameter.logical;
    for (size_t dim = 0; dim < parameter.axes.size(); ++dim) {
      const AxisRow& row = axis_row(parameter.axes[dim]);
      const int parts = mesh.group_size(row.cut);
      const int64_t extent = parameter.logical[static_cast<int>(dim)];
      if (!row.padded && units(parameter, dim, head_dim) % parts != 0) {
        return invalid(fmt::format("parallel.tp is {}, which does not divide the {} {} of {}; use {}",
                                   mesh.group_size(kTpMask), units(parameter, dim, head_dim), row.word,
                                   parameter.name, nearest_tp(graph, head_dim, mesh.group_size(kTpMask))));
      }
      parameter.stored.set(static_cast<int>(dim), (extent + parts - 1) / parts);
      for (int axis = 0; axis < kAxisCount; ++axis) {
        const AxisMask mask = mask_of(static_cast<Axis>(axis));
        if (mesh.sizes[static_cast<size_t>(axis)] == 1) continue;
        Place& place = parameter.places[static_cast<size_t>(axis)];
        if ((row.cut & mask) != 0) place = {Placement::kSharded, static_cast<int8_t>(dim)};
        if ((row.shared & mask) != 0) place = {Placement::kBroadcast, -1};
      }
    }
  }
  return {};
}

// A decoded token is one position for all ranks of cp, which then do the same.
Result<SequenceCut> sequence_cut(const Graph& graph, const Mesh& mesh) {
  const ValueId tokens = graph.find_value("batch.tokens");
  const int64_t length = tokens == kNoValue ? 1 : graph.value(tokens).logical[1];
  const bool decodes =
      std::ranges::any_of(graph.nodes, [](const Node& node) { return node.op == Op::kAttentionCached; });
  SequenceCut cut;
  cut.over_cp = !decodes && mesh.group_size(kCpMask) > 1;
  if (cut.over_cp) INGOT_TRY_VOID(check_context(length, mesh.group_size(kCpMask)));
  const int64_t held = cut.over_cp ? length / mesh.group_size(kCpMask) : length;
  cut.over_tp = mesh.group_size(kTpMask) > 1 && held % mesh.group_size(kTpMask) == 0;
  return cut;
}

// Operations without a rule of their own are elementwise: all activations lie as the first does.
void follow_first_input(PartitionContext& context, const Node& node) {
  const std::vector<ValueId> inputs = context.inputs_of(node);
  for (const ValueId input : inputs)
    INGOT_CHECK(context.value(input).role != Role::kActivation ||
                    context.value(input).places == context.value(inputs[0]).places,
                "{} and {} lie differently", context.value(inputs[0]).name, context.value(input).name);
  context.emit(node, inputs);
}

// Logits of decoding leave the program: every rank gets all of them.
void gather_logits(const Graph& from, PartitionContext& context) {
  const ValueId original = from.find_value("logits");
  if (original == kNoValue) return;
  const ValueId part = context.mapped(original);
  context.set_layer(from.layers);
  const ValueId whole = context.convert(part, {Placement::kReplicated, -1});
  if (whole == part) return;
  context.value(part).name = "logits.part";
  context.value(whole).name = "logits";
}

}  // namespace

Result<Graph> partition_pass(const Graph& forward, const Mesh& mesh, bool gradient) {
  if (mesh.size(Axis::kEp) > 1)
    return invalid(fmt::format("parallel.ep is {}, and the model has no experts to share out; use 1",
                               mesh.size(Axis::kEp)));
  INGOT_TRY(const SequenceCut cut, sequence_cut(forward, mesh));
  Graph graph;
  graph.parameters = forward.parameters;
  graph.layers = forward.layers;
  INGOT_TRY_VOID(place_parameters(graph, mesh, head_size(forward)));
  PartitionContext context(forward, graph, mesh, cut, gradient);
  for (const Node& node : forward.nodes) {
    context.set_layer(node.layer);
    const auto rule = info(node.op).partition;
    (rule != nullptr ? rule : follow_first_input)(context, node);
  }
  gather_logits(forward, context);
  INGOT_CHECK(context.conflicts().empty(), "{} is used both whole and for a part of the work",
              context.conflicts()[0]);
  for (Parameter& parameter : graph.parameters)
    for (int axis = 0; axis < kAxisCount; ++axis)
      if (parameter.places[static_cast<size_t>(axis)].kind == Placement::kBroadcast)
        parameter.partial |= mask_of(static_cast<Axis>(axis));
  return graph;
}

}  // namespace ingot::graph
