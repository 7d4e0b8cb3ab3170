// Sums of gradients over the ranks that share the work. Without ZeRO and in its first stage accumulators are
// whole and are reduced once, after the last writer of the last micro-batch: by an all-reduce, or by a
// reduce-scatter into the rank's own shard. From the second stage on an accumulator lives for one phase, is
// reduce-scattered in every micro-batch, and the shard is added to. A bucket written by several chunks is
// reduced in finish.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

// The first writer of an accumulator overwrites it in the first micro-batch; where a node is the first
// writer of one output and a later writer of another, the first is zeroed instead.
class FirstWriters {
 public:
  explicit FirstWriters(Draft& draft) : draft_(draft), written_(draft.places.size(), false) {}

  // In the order in which the first micro-batch passes through the chunks.
  void run() {
    const size_t chunks = draft_.chunks.size();
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kWeight})
      for (size_t c = 0; c < chunks; ++c)
        mark(draft_.chunks[phase == Phase::kForward ? c : chunks - 1 - c], phase);
  }

 private:
  void mark(Graph& graph, Phase phase) {
    std::vector<Node> nodes;
    nodes.reserve(graph.nodes.size());
    for (Node& node : graph.nodes) {
      if (node.phase == phase) mark(graph, node, nodes);
      nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(nodes);
  }

  void mark(const Graph& graph, Node& node, std::vector<Node>& before) {
    std::vector<ValueId> fresh;
    size_t accumulators = 0;
    for (const ValueId id : node.outputs) {
      const Value& value = graph.value(id);
      if (value.role != Role::kGradient || value.buffer < 0) continue;
      ++accumulators;
      if (!written_[static_cast<size_t>(value.parameter)]) fresh.push_back(id);
      written_[static_cast<size_t>(value.parameter)] = true;
    }
    node.zero_first = !fresh.empty() && fresh.size() == accumulators;
    if (node.zero_first) return;
    for (const ValueId id : fresh) {
      Node zero;
      zero.op = Op::kZero;
      zero.phase = node.phase;
      zero.when = When::kFirst;
      zero.layer = node.layer;
      zero.outputs = {id};
      before.push_back(std::move(zero));
    }
  }

  Draft& draft_;
  std::vector<bool> written_;  // by parameter
};

class Reductions {
 public:
  explicit Reductions(Draft& draft) : draft_(draft), used_(axes_in_use(draft.options.layout.mesh)) {
    for (const Bucket& bucket : draft.buckets) plans_.push_back(plan_of(bucket));
  }

  Result<void> run(Graph& finish) {
    find_writers();
    INGOT_TRY_VOID(check_chunks());
    for (int c = 0; c < static_cast<int>(draft_.chunks.size()); ++c) add_to(c);
    for (const Bucket& bucket : draft_.buckets)
      if (plan(bucket).chunks > 1) reduce_whole(finish, finish.nodes, bucket, Phase::kFinish, When::kAlways);
    return {};
  }

 private:
  struct Plan {
    std::vector<GradientRun> runs;  // summed before the bucket is cut
    AxisMask after = 0;             // axes over which the own part is summed, of a bucket that ZeRO cuts
    int chunks = 0;                 // that write it
    Phase first_phase = Phase::kForward, last_phase = Phase::kForward;  // of the writers
    int first_chunk = 0, last_chunk = 0;
  };
  // Writers of a bucket in a phase of a chunk: first and last node, and the accumulator of this phase alone.
  struct Writers {
    int first = 0, last = 0;
    ValueId full = kNoValue;
  };
  using Key = std::pair<Phase, int>;  // phase, bucket

  const Bucket& bucket(int id) const { return draft_.buckets[static_cast<size_t>(id)]; }
  Plan& plan(const Bucket& bucket) { return plans_[static_cast<size_t>(bucket.id)]; }
  int buffer_of(const Bucket& bucket) const {
    return draft_.bucket_buffers[static_cast<size_t>(bucket.id)].gradient;
  }
  bool each_micro_batch(const Bucket& bucket) const { return draft_.cuts(bucket, "grad"); }

  // Parameters of a bucket may be partial over different axes. What all share is summed last, in the shard
  // where there is one.
  Plan plan_of(const Bucket& bucket) const {
    const std::vector<Parameter>& parameters = draft_.chunks.front().parameters;
    Plan plan;
    const bool cut = bucket.shard_axes != 0 || draft_.sums_by_tree();
    unsigned shared = cut ? used_ : 0;
    for (const int index : bucket.parameters) shared &= parameters[static_cast<size_t>(index)].partial;
    if (cut) {
      const unsigned first = draft_.sums_by_tree() ? kDpMask : bucket.shard_axes;
      plan.after = static_cast<AxisMask>((bucket.reduce_axes & ~first) | shared);
    }
    const unsigned before = cut ? 0 : bucket.reduce_axes;
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      const unsigned partial = parameters[static_cast<size_t>(bucket.parameters[i])].partial & used_;
      const auto axes = static_cast<AxisMask>((partial & ~shared) | before);
      const int64_t end = i + 1 < bucket.offsets.size() ? bucket.offsets[i + 1] : bucket.elements;
      if (!plan.runs.empty() && plan.runs.back().axes == axes) {
        plan.runs.back().end = end;
      } else {
        plan.runs.push_back({bucket.offsets[i], end, axes});
      }
    }
    std::erase_if(plan.runs, [](const GradientRun& run) { return run.axes == 0; });
    return plan;
  }

  Result<void> check_chunks() const {
    if (!draft_.sums_by_tree()) return {};
    for (const Bucket& own : draft_.buckets)
      if (plans_[static_cast<size_t>(own.id)].chunks > 1)
        return invalid(fmt::format(
            "{} is used by several pieces of one pipeline stage, which run.determinism \"layout\" cannot do; "
            "use parallel.virtual_stages 1",
            draft_.chunks.front().parameters[static_cast<size_t>(own.parameters.front())].name));
    return {};
  }

  void find_writers() {
    writers_.resize(draft_.chunks.size());
    for (size_t c = 0; c < draft_.chunks.size(); ++c) {
      const Graph& graph = draft_.chunks[c];
      std::map<Key, Writers>& writers = writers_[c];
      for (size_t k = 0; k < graph.nodes.size(); ++k) {
        for (const ValueId id : graph.nodes[k].outputs) {
          const Value& value = graph.value(id);
          if (value.role != Role::kGradient) continue;
          const int id_of_bucket = draft_.places[static_cast<size_t>(value.parameter)].bucket;
          const auto [found, added] = writers.try_emplace({graph.nodes[k].phase, id_of_bucket});
          if (added) found->second.first = static_cast<int>(k);
          found->second.last = static_cast<int>(k);
        }
      }
      for (const auto& [key, span] : writers) note(plans_[static_cast<size_t>(key.second)], key.first, c);
    }
  }

  // The first micro-batch passes forward through the chunks, then back.
  static void note(Plan& plan, Phase phase, size_t chunk) {
    const int c = static_cast<int>(chunk);
    const auto passed = [](Phase p, int at) { return std::pair(p, p == Phase::kForward ? at : -at); };
    if (plan.chunks == 0 || passed(phase, c) < passed(plan.first_phase, plan.first_chunk)) {
      plan.first_phase = phase;
      plan.first_chunk = c;
    }
    if (plan.chunks == 0 || plan.last_chunk != c) ++plan.chunks;
    plan.last_chunk = c;
    plan.last_phase = phase;
  }

  void add_to(int chunk) {
    Graph& graph = draft_.chunks[static_cast<size_t>(chunk)];
    std::vector<std::vector<std::pair<const Key, Writers>*>> opens(graph.nodes.size()),
        closes(graph.nodes.size());
    for (auto& entry : writers_[static_cast<size_t>(chunk)]) {
      opens[static_cast<size_t>(entry.second.first)].push_back(&entry);
      closes[static_cast<size_t>(entry.second.last)].push_back(&entry);
    }
    std::vector<Node> nodes = std::move(graph.nodes);
    graph.nodes.clear();
    graph.nodes.reserve(nodes.size());
    for (size_t k = 0; k < nodes.size(); ++k) {
      for (auto* entry : opens[k]) open(graph, entry->first, entry->second);
      redirect(graph, nodes[k], chunk);
      graph.nodes.push_back(std::move(nodes[k]));
      for (auto* entry : closes[k]) close(graph, entry->first, entry->second, chunk);
    }
    flush(graph, [](const Pending&) { return true; });
    if (draft_.sums_by_tree()) keep_loss_by_group(draft_, graph);
  }

  // An accumulator for this phase alone. Zeroed whole: gaps between parameters are summed too.
  void open(Graph& graph, const Key& key, Writers& writers) {
    const Bucket& own = bucket(key.second);
    if (!each_micro_batch(own)) return;
    const BufferPlan& buffer = draft_.buffers[static_cast<size_t>(buffer_of(own))];
    Value full;
    full.name = "full." + buffer.name;
    full.logical = full.stored = Shape{own.elements};
    full.dtype = buffer.dtype;
    full.space = draft_.options.targets[0]->space;
    writers.full = graph.add_value(std::move(full));
    Node zero;
    zero.op = Op::kZero;
    zero.phase = key.first;
    zero.layer = own.layer;
    zero.outputs = {writers.full};
    graph.nodes.push_back(std::move(zero));
  }

  void redirect(Graph& graph, Node& node, int chunk) {
    for (ValueId& id : node.outputs) {
      if (graph.value(id).role != Role::kGradient || graph.value(id).buffer >= 0) continue;
      const BucketPlace place = draft_.places[static_cast<size_t>(graph.value(id).parameter)];
      Value view = graph.value(id);
      view.base = writers_[static_cast<size_t>(chunk)].at({node.phase, place.bucket}).full;
      view.base_offset = place.offset;
      id = add_by_name(graph, std::move(view));
    }
  }

  void close(Graph& graph, const Key& key, const Writers& writers, int chunk) {
    const Bucket& own = bucket(key.second);
    const Plan& its = plan(own);
    const bool last = its.chunks == 1 && key.first == its.last_phase;
    if (each_micro_batch(own)) {
      const bool first = its.first_phase == key.first && its.first_chunk == chunk;
      scatter(graph, own, key.first, writers.full, first, last);
    } else if (last && draft_.sums_by_tree()) {
      flush_before(graph, own, key.first);
      pending_.push_back({own.layer, key.first, {}});
      sum_by_tree(draft_, graph, own, key.first, {its.runs, its.after}, pending_.back().nodes);
    } else if (last) {
      reduce_whole(graph, graph.nodes, own, key.first, When::kLast);
    }
  }

  Node sum(AxisMask axes, const Bucket& own, Phase phase, When when, ValueId value) const {
    Node node = draft_.collective(Op::kAllReduce, axes, phase, own.layer);
    node.when = when;
    node.inputs = node.outputs = {value};
    return node;
  }

  // Of accumulators that live for the whole step.
  void reduce_whole(Graph& graph, std::vector<Node>& nodes, const Bucket& own, Phase phase, When when) {
    const int buffer = buffer_of(own);
    if (!each_micro_batch(own)) {
      for (const GradientRun& run : plan(own).runs) {
        Value part = draft_.persistent(buffer);
        part.logical = part.stored = Shape{run.end - run.begin};
        part.buffer_offset = run.begin;
        nodes.push_back(sum(run.axes, own, phase, when, add_by_name(graph, std::move(part))));
      }
      if (own.shard_axes == 0) return;
      Node scatter = draft_.collective(Op::kReduceScatter, own.shard_axes, phase, own.layer);
      scatter.when = when;
      scatter.attributes.dim = 0;
      scatter.inputs = {add_by_name(graph, draft_.persistent(buffer))};
      scatter.outputs = {add_by_name(graph, draft_.shard(own, buffer))};
      nodes.push_back(std::move(scatter));
    }
    if (plan(own).after != 0)
      nodes.push_back(sum(plan(own).after, own, phase, when, add_by_name(graph, draft_.shard(own, buffer))));
  }

  // What adds to a shard waits until something of another layer is reduced: a collective runs beside the next
  // layer's work.
  struct Pending {
    int layer = 0;
    Phase phase = Phase::kForward;
    std::vector<Node> nodes;
  };

  void flush_before(Graph& graph, const Bucket& own, Phase phase) {
    flush(graph, [&](const Pending& other) { return other.phase != phase || other.layer != own.layer; });
  }

  template <class Due>
  void flush(Graph& graph, const Due& due) {
    for (Pending& pending : pending_)
      if (due(pending)) std::ranges::move(pending.nodes, std::back_inserter(graph.nodes));
    std::erase_if(pending_, due);
  }

  // Of the accumulator of one phase, in every micro-batch. In a step of one micro-batch the first sum of a
  // shard goes straight into it.
  void scatter(Graph& graph, const Bucket& own, Phase phase, ValueId full, bool first, bool last) {
    flush_before(graph, own, phase);
    for (const GradientRun& run : plan(own).runs) {
      Value part = graph.value(full);
      part.base = full;
      part.base_offset = run.begin;
      part.logical = part.stored = Shape{run.end - run.begin};
      graph.nodes.push_back(sum(run.axes, own, phase, When::kAlways, add_by_name(graph, std::move(part))));
    }
    const ValueId shard = add_by_name(graph, draft_.shard(own, buffer_of(own)));
    const bool straight = first && draft_.options.layout.micro_batches == 1;
    Node node = draft_.collective(Op::kReduceScatter, own.shard_axes, phase, own.layer);
    node.attributes.dim = 0;
    node.inputs = {full};
    node.outputs = {straight ? shard : part_of(graph, shard)};
    const ValueId part = node.outputs[0];
    graph.nodes.push_back(std::move(node));
    std::vector<Node> rest;
    if (!straight) add_part(rest, own, phase, shard, part, first);
    if (last) reduce_whole(graph, rest, own, phase, When::kLast);
    if (straight) {
      std::ranges::move(rest, std::back_inserter(graph.nodes));
    } else {
      pending_.push_back({own.layer, phase, std::move(rest)});
    }
  }

  static ValueId part_of(Graph& graph, ValueId shard) {
    Value part = graph.value(shard);
    part.name += ".part";
    part.role = Role::kActivation;
    part.buffer = -1;
    return graph.add_value(std::move(part));
  }

  static void add_part(std::vector<Node>& nodes, const Bucket& own, Phase phase, ValueId shard, ValueId part,
                       bool first) {
    Node node;
    node.phase = phase;
    node.layer = own.layer;
    node.outputs = {shard};
    if (first) {
      node.op = Op::kZero;
      node.when = When::kFirst;
      nodes.push_back(node);
      node.when = When::kAlways;
    }
    node.op = Op::kAdd;
    node.inputs = {shard, part};
    nodes.push_back(std::move(node));
  }

  Draft& draft_;
  const AxisMask used_;
  std::vector<Plan> plans_;                      // by bucket
  std::vector<std::map<Key, Writers>> writers_;  // by chunk
  std::vector<Pending> pending_;
};

}  // namespace

Result<void> reduce_gradients(Draft& draft, Graph& finish) {
  if (draft.options.purpose != Purpose::kTrain) return {};
  FirstWriters(draft).run();
  return Reductions(draft).run(finish);
}

}  // namespace ingot::graph
