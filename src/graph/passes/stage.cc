// Cuts a partitioned forward graph into chunks of layers. What depends on activations crosses from chunk to
// chunk, hop by hop; copies of parameters, and what is computed from the batch alone, are made again in every
// chunk that reads them: they have no gradient to send back.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

// Of the cost in FLOPs: what moving a byte takes of the time of a FLOP, so that embeddings and norms are not
// free.
constexpr double kFlopsPerByte = 8;

// Cost of each layer, from -1 (index 0) to the head.
std::vector<double> layer_costs(const Graph& graph) {
  std::vector<double> costs(at(graph.layers) + 2, 0.0);
  for (const Node& node : graph.nodes) {
    if (info(node.op).cost == nullptr) continue;
    const OpCost cost = info(node.op).cost(graph, node);
    costs[at(std::clamp(node.layer, -1, graph.layers) + 1)] += cost.flops + kFlopsPerByte * cost.bytes;
  }
  return costs;
}

// The best cuts of costs into `chunks` runs, none empty: least(chunk) of a run's cost is summed, and the sum
// of the whole is the smallest. Returns the first index of each run.
template <class Penalty>
std::vector<size_t> best_cuts(const std::vector<double>& costs, size_t chunks, const Penalty& penalty) {
  const size_t count = costs.size();
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> before(count + 1, 0.0);
  for (size_t i = 0; i < count; ++i) before[i + 1] = before[i] + costs[i];
  // least[c][n]: of the first n costs in c runs; from[c][n]: where the last of these begins.
  std::vector<std::vector<double>> least(chunks + 1, std::vector<double>(count + 1, kNone));
  std::vector<std::vector<size_t>> from(chunks + 1, std::vector<size_t>(count + 1, 0));
  least[0][0] = 0;
  for (size_t c = 1; c <= chunks; ++c)
    for (size_t n = c; n <= count; ++n)
      for (size_t first = c - 1; first < n; ++first) {
        const double sum = penalty(least[c - 1][first], before[n] - before[first]);
        if (sum >= least[c][n]) continue;
        least[c][n] = sum;
        from[c][n] = first;
      }
  std::vector<size_t> cuts(chunks);
  for (size_t c = chunks, n = count; c > 0; --c) n = cuts[c - 1] = from[c][n];
  return cuts;
}

enum class Origin : uint8_t { kData, kParameter, kActivation };

class Cutting {
 public:
  Cutting(const Graph& whole, const Layout& layout, int stage)
      : whole_(whole), layout_(layout), stage_(stage), stages_(layout.mesh.size(Axis::kPp)) {
    producer_ = producers(whole);
    find_origins();
    find_crossings();
  }

  Result<std::vector<Graph>> run() {
    INGOT_TRY_VOID(choose_parameters());
    std::vector<Graph> chunks;
    for (int c = 0; c < layout_.virtual_stages; ++c) chunks.push_back(build(c * stages_ + stage_));
    return chunks;
  }

 private:
  // A value that crosses a boundary, with the tag of its messages there.
  struct Crossing {
    ValueId value = kNoValue;
    int tag = 0;
  };

  int chunk_of(const Node& node) const {
    const std::vector<int>& first = layout_.first_layers;
    const int layer = std::clamp(node.layer, -1, whole_.layers);
    return static_cast<int>(std::ranges::upper_bound(first, layer) - first.begin()) - 1;
  }

  void find_origins() {
    origins_.assign(whole_.values.size(), Origin::kActivation);
    for (size_t v = 0; v < whole_.values.size(); ++v) {
      const Role role = whole_.values[v].role;
      if (producer_[v] < 0 && role == Role::kData) origins_[v] = Origin::kData;
      if (producer_[v] < 0 && role == Role::kParameter) origins_[v] = Origin::kParameter;
    }
    for (const Node& node : whole_.nodes) {
      if (node.inputs.empty()) continue;
      const Origin first = origins_[at(node.inputs[0])];
      const bool alike =
          std::ranges::all_of(node.inputs, [&](ValueId id) { return origins_[at(id)] == first; });
      for (const ValueId id : node.outputs)
        if (alike && whole_.value(id).role != Role::kState) origins_[at(id)] = first;
    }
  }

  bool crosses(ValueId id) const {
    return origins_[at(id)] == Origin::kActivation && whole_.value(id).role != Role::kState;
  }

  // Each value that a later chunk reads crosses every boundary from its own chunk to the last that reads it.
  void find_crossings() {
    std::vector<int> made(whole_.values.size(), -1), read(whole_.values.size(), -1);
    for (const Node& node : whole_.nodes) {
      const int chunk = chunk_of(node);
      for (const ValueId id : node.outputs) made[at(id)] = chunk;
      for (const ValueId id : node.inputs) read[at(id)] = std::max(read[at(id)], chunk);
    }
    crossings_.resize(at(layout_.chunks()) - 1);
    int tag = 0;
    for (int boundary = 0; boundary + 1 < layout_.chunks(); ++boundary)
      for (size_t v = 0; v < whole_.values.size(); ++v)
        if (crosses(static_cast<ValueId>(v)) && made[v] >= 0 && made[v] <= boundary && read[v] > boundary)
          crossings_[at(boundary)].push_back({static_cast<ValueId>(v), tag++});
  }

  // The parameters that the stage's chunks read, in the order of the model.
  Result<void> choose_parameters() {
    const std::vector<std::vector<int>> holders = find_holders();
    parameters_.assign(whole_.parameters.size(), -1);
    int count = 0;
    for (size_t p = 0; p < holders.size(); ++p) {
      const std::vector<int> ends = {0, stages_ - 1};
      if (holders[p].size() > 1 && holders[p] != ends) {
        return invalid(fmt::format(
            "{} is read by {} of {} pipeline stages; only the first and the last can share a parameter",
            whole_.parameters[p].name, holders[p].size(), stages_));
      }
      if (std::ranges::count(holders[p], stage_) > 0) parameters_[p] = count++;
    }
    return {};
  }

  // Per parameter the stages that read it, ascending. A node that only copies parameters runs wherever the
  // copy is read.
  std::vector<std::vector<int>> find_holders() const {
    std::vector<std::set<int>> readers(whole_.values.size());
    for (size_t k = whole_.nodes.size(); k-- > 0;) {
      const Node& node = whole_.nodes[k];
      std::set<int> stages;
      if (made_everywhere(node)) {
        for (const ValueId id : node.outputs) stages.insert(readers[at(id)].begin(), readers[at(id)].end());
      } else {
        stages.insert(chunk_of(node) % stages_);
      }
      for (const ValueId id : node.inputs)
        if (whole_.value(id).role == Role::kParameter) readers[at(id)].insert(stages.begin(), stages.end());
    }
    std::vector<std::vector<int>> holders(whole_.parameters.size());
    for (size_t v = 0; v < readers.size(); ++v)
      if (whole_.values[v].role == Role::kParameter && producer_[v] < 0)
        holders[at(whole_.values[v].parameter)].assign(readers[v].begin(), readers[v].end());
    return holders;
  }

  bool made_everywhere(const Node& node) const {
    return !node.outputs.empty() && origins_[at(node.outputs[0])] != Origin::kActivation;
  }

  Graph build(int chunk) {
    Graph graph;
    graph.layers = whole_.layers;
    for (size_t p = 0; p < whole_.parameters.size(); ++p)
      if (parameters_[p] >= 0) graph.parameters.push_back(whole_.parameters[p]);
    map_.assign(whole_.values.size(), kNoValue);
    const int first = layout_.first_layers[at(chunk)];
    if (chunk > 0)
      for (const Crossing& crossing : crossings_[at(chunk) - 1]) receive(graph, crossing, first);
    int last = first;
    for (const Node& node : whole_.nodes) {
      if (made_everywhere(node) || chunk_of(node) != chunk) continue;
      copy(graph, node, node.layer);
      last = node.layer;
    }
    if (chunk + 1 < layout_.chunks())
      for (const Crossing& crossing : crossings_[at(chunk)]) send(graph, crossing, last);
    return graph;
  }

  void receive(Graph& graph, const Crossing& crossing, int layer) {
    Node node{.op = Op::kReceive, .layer = layer};
    node.outputs = {add_copy(graph, crossing.value)};
    node.attributes.peer = -1;
    node.attributes.tag = crossing.tag;
    graph.add_node(std::move(node));
  }

  void send(Graph& graph, const Crossing& crossing, int layer) {
    Node node{.op = Op::kSend, .layer = layer, .inputs = {counterpart(graph, crossing.value, layer)}};
    node.attributes.peer = 1;
    node.attributes.tag = crossing.tag;
    graph.add_node(std::move(node));
  }

  void copy(Graph& graph, const Node& original, int layer) {
    Node node = original;
    node.layer = layer;
    for (ValueId& id : node.inputs) id = counterpart(graph, id, layer);
    for (ValueId& id : node.outputs) id = counterpart(graph, id, layer, false);
    graph.add_node(std::move(node));
  }

  // What stands for a value of the whole graph in the chunk being built; made with its node where it is of
  // those that every chunk makes for itself.
  ValueId counterpart(Graph& graph, ValueId original, int layer, bool made = true) {
    if (map_[at(original)] != kNoValue) return map_[at(original)];
    const Value& value = whole_.value(original);
    const int producer = producer_[at(original)];
    if (value.role == Role::kParameter && producer < 0) {
      const ValueId id = graph.parameter_value(parameters_[at(value.parameter)]);
      graph.value(id).dtype = value.dtype;
      graph.value(id).places = value.places;
      return map_[at(original)] = id;
    }
    if (made && producer >= 0 && value.role != Role::kState) {
      INGOT_CHECK(origins_[at(original)] != Origin::kActivation, "{} is of another chunk", value.name);
      copy(graph, whole_.nodes[at(producer)], layer);
      return map_[at(original)];
    }
    return add_copy(graph, original);
  }

  ValueId add_copy(Graph& graph, ValueId original) {
    Value value = whole_.value(original);
    INGOT_CHECK(value.base == kNoValue && value.bound.count == kNoValue, "{} leans on another value",
                value.name);
    if (value.parameter >= 0) value.parameter = parameters_[at(value.parameter)];
    return map_[at(original)] = graph.add_value(std::move(value));
  }

  const Graph& whole_;
  const Layout& layout_;
  const int stage_, stages_;
  std::vector<int> producer_;
  std::vector<Origin> origins_;
  std::vector<std::vector<Crossing>> crossings_;  // by boundary: between chunk b and b + 1
  std::vector<int> parameters_;                   // index in the stage's list, -1: of other stages
  std::vector<ValueId> map_;                      // of the chunk being built
};

}  // namespace

Result<std::vector<int>> balance_chunks(const Graph& costed, const Layout& layout) {
  const std::vector<double> costs = layer_costs(costed);
  const size_t chunks = at(layout.chunks());
  if (chunks > costs.size()) {
    return invalid(fmt::format(
        "parallel.pp {} with virtual_stages {} makes {} pieces of the model, which has {} layers, an "
        "embedding and a head: it can be cut into {}",
        layout.mesh.size(Axis::kPp), layout.virtual_stages, chunks, costed.layers, costs.size()));
  }
  // The step takes as long as the costliest chunk; among the cuts with the same one, the most even.
  const auto greatest = [](double sum, double cost) { return std::max(sum, cost); };
  const std::vector<size_t> cuts = best_cuts(costs, chunks, greatest);
  double bound = 0;
  for (size_t c = 0; c < chunks; ++c) {
    double cost = 0;
    for (size_t i = cuts[c]; i < (c + 1 < chunks ? cuts[c + 1] : costs.size()); ++i) cost += costs[i];
    bound = std::max(bound, cost);
  }
  bound *= 1 + 1e-9;
  const auto evenness = [bound](double sum, double cost) {
    return cost > bound ? std::numeric_limits<double>::infinity() : sum + cost * cost;
  };
  std::vector<int> first_layers;
  for (const size_t cut : best_cuts(costs, chunks, evenness))
    first_layers.push_back(static_cast<int>(cut) - 1);
  return first_layers;
}

Result<std::vector<Graph>> cut_stages(Graph graph, const Layout& layout, int stage) {
  if (layout.chunks() == 1) {
    std::vector<Graph> chunks;
    chunks.push_back(std::move(graph));
    return chunks;
  }
  const std::vector<int>& first = layout.first_layers;
  const bool fits = first.size() == at(layout.chunks()) && first.front() == -1 &&
                    std::ranges::adjacent_find(first, std::greater_equal<>()) == first.end() &&
                    first.back() <= graph.layers;
  if (!fits)
    return invalid(fmt::format("{} first layers for {} chunks of {} layers: they must ascend from -1",
                               first.size(), layout.chunks(), graph.layers));
  return Cutting(graph, layout, stage).run();
}

}  // namespace ingot::graph
