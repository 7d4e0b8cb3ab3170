// Two things that a Target asks for: fused patterns, each a pair (producer, consumer) replaced by one node,
// and packed copies of weights. To add a pattern: one row in kPatterns; its expansion is what it stands for
// in cost and proofs.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

struct Match {
  const Graph& graph;
  const Node& producer;
  const Node& consumer;
  ValueId between;   // producer's first output, read by the consumer
  bool only_reader;  // nobody else reads it
};

bool same_type(const Graph& graph, ValueId a, ValueId b) {
  return graph.value(a).dtype == graph.value(b).dtype && graph.value(a).stored == graph.value(b).stored;
}

ValueId other_summand(const Match& match) {
  return match.consumer.inputs[match.consumer.inputs[0] == match.between ? 1 : 0];
}

bool sums_into_norm(const Match& match) {
  return match.consumer.outputs.size() == 1 && match.consumer.inputs[0] == match.between &&
         same_type(match.graph, match.producer.inputs[0], match.between);
}

Node fuse_sum_norm(const Match& match) {
  Node node = match.consumer;
  node.inputs.erase(node.inputs.begin());
  node.inputs.insert(node.inputs.begin(), match.producer.inputs.begin(), match.producer.inputs.end());
  node.outputs = {match.between, match.consumer.outputs[0]};
  return node;
}

// The producer's result goes nowhere but into a sum with a value of the sum's own type.
bool summed_alone(const Match& match) {
  const size_t plain_inputs = match.producer.op == Op::kLinearDx ? 2 : 3;
  const ValueId other = other_summand(match);
  return match.only_reader && match.producer.inputs.size() == plain_inputs && other != match.between &&
         same_type(match.graph, other, match.consumer.outputs[0]);
}

Node fuse_addend(const Match& match) {
  Node node = match.producer;
  node.inputs.push_back(other_summand(match));
  node.outputs = match.consumer.outputs;
  return node;
}

bool activates(const Match& match) {
  return match.consumer.inputs.size() == 1 && match.producer.outputs.size() == 1 &&
         match.consumer.attributes.activation != ActivationKind::kSwiGlu;
}

Node fuse_activation(const Match& match) {
  Node node = match.producer;
  node.attributes.activation = match.consumer.attributes.activation;
  node.outputs = {match.consumer.outputs[0], match.between};
  return node;
}

struct Pattern {
  std::string_view name;
  std::array<Op, 2> expansion;
  bool (*predicate)(const Match& match);
  Node (*replace)(const Match& match);
};

constexpr std::array<Pattern, 4> kPatterns{{
    {"add+norm", {Op::kAdd, Op::kNorm}, sums_into_norm, fuse_sum_norm},
    {"linear_dx+add", {Op::kLinearDx, Op::kAdd}, summed_alone, fuse_addend},
    {"norm_dx+add", {Op::kNormDx, Op::kAdd}, summed_alone, fuse_addend},
    {"linear+activation", {Op::kLinear, Op::kActivation}, activates, fuse_activation},
}};

// Applies one pattern everywhere in one chunk.
class PatternPass {
 public:
  PatternPass(Graph& graph, const Pattern& pattern)
      : graph_(graph), pattern_(pattern), producer_(producers(graph)), readers_(graph.values.size()) {
    for (size_t k = 0; k < graph.nodes.size(); ++k)
      for (const ValueId id : graph.nodes[k].inputs)
        readers_[static_cast<size_t>(id)].push_back(static_cast<int>(k));
  }

  void run() {
    removed_.assign(graph_.nodes.size(), false);
    for (size_t k = 0; k < graph_.nodes.size(); ++k)
      if (!removed_[k] && graph_.nodes[k].op == pattern_.expansion[0]) try_producer(static_cast<int>(k));
    size_t kept = 0;
    for (size_t k = 0; k < graph_.nodes.size(); ++k) {
      if (removed_[k]) continue;
      if (kept != k) graph_.nodes[kept] = std::move(graph_.nodes[k]);
      ++kept;
    }
    graph_.nodes.resize(kept);
  }

 private:
  Node& node(int index) { return graph_.nodes[static_cast<size_t>(index)]; }

  void try_producer(int first) {
    const ValueId between = node(first).outputs[0];
    const std::vector<int>& readers = readers_[static_cast<size_t>(between)];
    for (const int second : readers) {
      const Node &a = node(first), &b = node(second);
      if (removed_[static_cast<size_t>(second)] || b.op != pattern_.expansion[1] || a.phase != b.phase ||
          a.clone != b.clone || a.target != b.target || a.stream != b.stream || a.when != b.when)
        continue;
      const Match match{graph_, a, b, between, readers.size() == 1};
      if (!pattern_.predicate(match)) continue;
      replace(first, second, pattern_.replace(match));
      return;
    }
  }

  // At the producer's place where all operands are there already, so that results are made no later than
  // before; else at the consumer's.
  void replace(int first, int second, Node fused) {
    const bool early = std::ranges::all_of(
        fused.inputs, [&](ValueId id) { return producer_[static_cast<size_t>(id)] < first; });
    const int at = early ? first : second;
    for (const ValueId id : fused.outputs) producer_[static_cast<size_t>(id)] = at;
    for (const ValueId id : fused.inputs)
      if (auto& readers = readers_[static_cast<size_t>(id)]; !readers.empty())
        std::ranges::replace_if(
            readers, [&](int reader) { return reader == first || reader == second; }, at);
    removed_[static_cast<size_t>(early ? second : first)] = true;
    node(at) = std::move(fused);
  }

  Graph& graph_;
  const Pattern& pattern_;
  std::vector<int> producer_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> removed_;
};

// Replaces the weights that operations read by copies in the layouts that the target wants.
class Packing {
 public:
  explicit Packing(Draft& draft) : draft_(draft), target_(*draft.options.targets[0]) {}

  void run() {
    if (target_.weight_layouts == nullptr) return;
    for (int chunk = 0; chunk < draft_.finish; ++chunk) {
      packed_.clear();
      Graph& graph = draft_.chunks[static_cast<size_t>(chunk)];
      producer_ = producers(graph);
      std::vector<Node> nodes = std::move(graph.nodes);
      originals_ = nodes;
      graph.nodes.clear();
      graph.nodes.reserve(nodes.size());
      for (Node& node : nodes) {
        pack_operands(graph, node);
        graph.nodes.push_back(std::move(node));
      }
    }
  }

 private:
  void pack_operands(Graph& graph, Node& node) {
    const Op op = node.op;
    if (op != Op::kLinear && op != Op::kLinearDx && op != Op::kHeadLoss && op != Op::kHeadStats) return;
    const WeightLayouts layouts =
        target_.weight_layouts(op, draft_.options.precision, node.attributes.with_gradient);
    const ValueId weight = node.inputs[1];
    if (!layouts.first.empty()) node.inputs[1] = packed(graph, node, weight, layouts.first);
    if (!layouts.second.empty()) node.inputs.push_back(packed(graph, node, weight, layouts.second));
  }

  // What a pack that casts reads: the parameter itself, in its bucket or gathered for this reader.
  ValueId master(Graph& graph, ValueId weight) const {
    if (graph.value(weight).buffer >= 0) return graph.parameter_value(graph.value(weight).parameter);
    const auto v = static_cast<size_t>(weight);
    const int by = v < producer_.size() ? producer_[v] : -1;
    return by < 0 ? weight : master(graph, originals_[static_cast<size_t>(by)].inputs[0]);
  }

  ValueId packed(Graph& graph, const Node& reader, ValueId weight, std::string_view layout) {
    const int parameter = graph.value(weight).parameter;
    INGOT_CHECK(parameter >= 0, "{} is no parameter", graph.value(weight).name);
    const ValueId source = target_.casts_in_pack ? master(graph, weight) : weight;
    const auto [found, added] = packed_.emplace(std::pair(source, std::string(layout)), kNoValue);
    if (!added) return found->second;
    const PackedLayout* row = find_packed(target_, layout);
    INGOT_CHECK(row != nullptr, "target {} has no packed layout {}", target_.name, layout);
    const Value from = graph.value(source);
    Value value;
    const std::string& name = graph.parameters[static_cast<size_t>(parameter)].name;
    value.name = fmt::format("pack.{}.{}", name, layout);
    value.logical = from.logical;
    value.stored = Shape{row->bytes(from.stored.rows(), from.stored.last())};
    value.dtype = DType::kU8;
    value.role = Role::kParameter;
    value.parameter = parameter;
    value.places = from.places;
    value.space = target_.space;
    if (from.buffer < 0) {
      Node pack = pack_node(reader.layer, layout);
      pack.phase = reader.phase;
      pack.inputs = {source};
      pack.outputs = {graph.add_value(std::move(value))};
      found->second = pack.outputs[0];
      graph.nodes.push_back(std::move(pack));
      return found->second;
    }
    BufferPlan buffer;
    buffer.name = value.name;
    buffer.space = Space::kDerived;
    buffer.dtype = DType::kU8;
    buffer.elements = value.stored.elements();
    buffer.memory = target_.space;
    value.buffer = draft_.add_buffer(std::move(buffer));
    Graph& finish = draft_.finish_graph();
    Node pack = pack_node(finish.parameters[static_cast<size_t>(parameter)].layer, layout);
    pack.inputs = {finish.add_value(from)};
    pack.outputs = {finish.add_value(value)};
    finish.nodes.push_back(std::move(pack));
    return found->second = graph.add_value(std::move(value));
  }

  static Node pack_node(int layer, std::string_view layout) {
    Node node;
    node.op = Op::kPack;
    node.phase = Phase::kBegin;
    node.layer = layer;
    node.attributes.layout = layout;
    return node;
  }

  Draft& draft_;
  const Target& target_;
  std::vector<int> producer_;  // of values in originals_, the chunk's nodes as they came
  std::vector<Node> originals_;
  std::map<std::pair<ValueId, std::string>, ValueId> packed_;  // by source and layout
};

// Copies of gathered parameters that packing made superfluous.
void drop_unread_casts(Graph& graph) {
  std::vector<bool> read(graph.values.size(), false);
  std::vector<Node> kept;
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    Node& node = graph.nodes[k];
    const bool unread = node.op == Op::kCast && !read[static_cast<size_t>(node.outputs[0])] &&
                        graph.value(node.outputs[0]).role == Role::kParameter;
    if (unread) continue;
    for (const ValueId id : node.inputs) read[static_cast<size_t>(id)] = true;
    kept.push_back(std::move(node));
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
}

// A copy that packing made superfluous is neither made nor held.
void drop_unread_copies(Draft& draft) {
  for (int chunk = 0; chunk < draft.finish; ++chunk)
    drop_unread_casts(draft.chunks[static_cast<size_t>(chunk)]);
  std::vector<bool> read(draft.buffers.size(), false);
  for (const Graph& graph : draft.chunks)
    for (const Node& node : graph.nodes)
      for (const ValueId id : node.inputs)
        if (const int buffer = graph.value(id).buffer; buffer >= 0) read[static_cast<size_t>(buffer)] = true;
  std::vector<int> moved(draft.buffers.size(), -1);
  std::vector<BufferPlan> kept;
  for (size_t b = 0; b < draft.buffers.size(); ++b) {
    if (draft.buffers[b].space == Space::kDerived && !read[b]) continue;
    moved[b] = static_cast<int>(kept.size());
    kept.push_back(std::move(draft.buffers[b]));
  }
  draft.buffers = std::move(kept);
  std::erase_if(draft.finish_graph().nodes, [&](const Node& node) {
    const int buffer = node.outputs.empty() ? -1 : draft.finish_graph().value(node.outputs[0]).buffer;
    return node.phase == Phase::kBegin && buffer >= 0 && moved[static_cast<size_t>(buffer)] < 0;
  });
  const auto move = [&](int& buffer) {
    if (buffer >= 0) buffer = moved[static_cast<size_t>(buffer)];
  };
  for (Graph& graph : draft.chunks)
    for (Value& value : graph.values) move(value.buffer);
  for (BucketBuffers& buffers : draft.bucket_buffers)
    for (int* buffer : {&buffers.parameter, &buffers.gradient, &buffers.first_moment, &buffers.second_moment})
      move(*buffer);
  for (BucketBuffers& buffers : draft.bucket_buffers)
    for (int& buffer : buffers.branches) move(buffer);
  for (int* buffer : {&draft.sums, &draft.scalars, &draft.step, &draft.parts}) move(*buffer);
}

}  // namespace

void fuse(Draft& draft) {
  for (const Fusion& fusion : draft.options.targets[0]->fusions) {
    const auto row = std::ranges::find(kPatterns, fusion.pattern, &Pattern::name);
    INGOT_CHECK(row != kPatterns.end(), "target {} asks for unknown pattern {}",
                draft.options.targets[0]->name, fusion.pattern);
    for (int chunk = 0; chunk < draft.finish; ++chunk)
      PatternPass(draft.chunks[static_cast<size_t>(chunk)], *row).run();
  }
  Packing(draft).run();
  drop_unread_copies(draft);
}

}  // namespace ingot::graph
