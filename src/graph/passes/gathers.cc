// ZeRO 3: a rank keeps a shard of every bucket, and each layer of a phase reads parameters from a bucket that
// is gathered for it. A gather is issued when the layer before begins, so that two layers' parameters are
// there at a time. Copies computed from parameters (casts, packs) are made behind the gather, once for each
// layer of a phase, and never kept from forward to backward.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

// One layer's part of a phase.
struct Part {
  Phase phase = Phase::kForward;
  int layer = 0;
  auto operator<=>(const Part&) const = default;
};

class Gathering {
 public:
  Gathering(Draft& draft, Graph& graph) : draft_(draft), graph_(graph), nodes_(std::move(graph.nodes)) {
    graph_.nodes.clear();
    copied_by_.assign(graph.values.size(), -1);
    for (size_t k = 0; k < nodes_.size(); ++k)
      if (copies(nodes_[k]))
        for (const ValueId id : nodes_[k].outputs) copied_by_[static_cast<size_t>(id)] = static_cast<int>(k);
    issued_.resize(nodes_.size());
  }

  void run() {
    find_uses();
    for (size_t k = 0; k < nodes_.size(); ++k) {
      if (copies(nodes_[k])) continue;
      for (const Use& use : issued_[k]) gather(use);
      Node node = nodes_[k];
      const Part part{node.phase, node.layer};
      for (ValueId& id : node.inputs) id = whole(id, part);
      graph_.nodes.push_back(std::move(node));
    }
  }

 private:
  struct Use {  // of a bucket by a part
    Part part;
    int bucket = 0;
  };

  bool is_parameter(ValueId id) const { return graph_.value(id).role == Role::kParameter; }
  // Copies of what lies whole in a buffer are made once a step (hoist), not here.
  bool copies(const Node& node) const {
    return !node.inputs.empty() && !info(node.op).collective &&
           std::ranges::all_of(node.inputs,
                               [&](ValueId id) { return is_parameter(id) && graph_.value(id).buffer < 0; });
  }
  const Bucket& bucket_of(ValueId id) const {
    const int parameter = graph_.value(id).parameter;
    return draft_.buckets[static_cast<size_t>(draft_.places[static_cast<size_t>(parameter)].bucket)];
  }

  // A gather goes before the first node of the part before, in the same phase.
  void find_uses() {
    std::map<Part, size_t> issued;   // by part, once its first node is seen
    std::map<Phase, size_t> newest;  // first node of the phase's newest part
    for (size_t k = 0; k < nodes_.size(); ++k) {
      const Node& node = nodes_[k];
      if (copies(node)) continue;
      const Part part{node.phase, node.layer};
      if (!issued.contains(part)) {
        const auto before = newest.find(node.phase);
        issued[part] = before == newest.end() ? k : before->second;
        newest[node.phase] = k;
      }
      for (const ValueId id : node.inputs) add_uses(id, part, issued.at(part));
    }
  }

  void add_uses(ValueId id, const Part& part, size_t issued) {
    if (!is_parameter(id) || graph_.value(id).buffer >= 0) return;
    if (const int copy = copied_by_[static_cast<size_t>(id)]; copy >= 0) {
      for (const ValueId source : nodes_[static_cast<size_t>(copy)].inputs) add_uses(source, part, issued);
      return;
    }
    const int bucket = bucket_of(id).id;
    if (seen_.emplace(part, bucket).second) issued_[issued].push_back({part, bucket});
  }

  void gather(const Use& use) {
    const Bucket& bucket = draft_.buckets[static_cast<size_t>(use.bucket)];
    const int buffer = draft_.bucket_buffers[static_cast<size_t>(use.bucket)].parameter;
    Value full;
    full.name = "full." + draft_.buffers[static_cast<size_t>(buffer)].name;
    full.logical = full.stored = Shape{bucket.elements};
    full.dtype = draft_.buffers[static_cast<size_t>(buffer)].dtype;
    full.space = draft_.options.targets[0]->space;
    const ValueId gathered = graph_.add_value(std::move(full));
    gathered_[{use.part, use.bucket}] = gathered;
    Node node = draft_.collective(Op::kAllGather, bucket.shard_axes, use.part.phase, bucket.layer);
    node.attributes.dim = 0;
    node.inputs = {add_by_name(graph_, draft_.persistent(buffer))};
    node.outputs = {gathered};
    graph_.nodes.push_back(std::move(node));
  }

  // The value that stands for a parameter, or for a copy of some, in a part.
  ValueId whole(ValueId id, const Part& part) {
    if (!is_parameter(id) || graph_.value(id).buffer >= 0) return id;
    if (const auto found = wholes_.find({part, id}); found != wholes_.end()) return found->second;
    const int copy = copied_by_[static_cast<size_t>(id)];
    if (copy >= 0) return copy_again(nodes_[static_cast<size_t>(copy)], part, id);
    Value view = graph_.value(id);
    view.base = gathered_.at({part, bucket_of(id).id});
    view.base_offset = draft_.places[static_cast<size_t>(view.parameter)].offset;
    return wholes_[{part, id}] = add_by_name(graph_, std::move(view));
  }

  ValueId copy_again(Node node, const Part& part, ValueId wanted) {
    node.phase = part.phase;
    node.layer = part.layer;
    for (ValueId& id : node.inputs) id = whole(id, part);
    for (ValueId& id : node.outputs) {
      const ValueId original = id;
      Value value = graph_.value(id);
      value.parameter = graph_.value(node.inputs[0]).parameter;
      id = graph_.add_value(std::move(value));
      wholes_[{part, original}] = id;
    }
    graph_.nodes.push_back(std::move(node));
    return wholes_.at({part, wanted});
  }

  Draft& draft_;
  Graph& graph_;
  std::vector<Node> nodes_;
  std::vector<int> copied_by_;            // per value: the node that computes it from parameters alone, -1
  std::vector<std::vector<Use>> issued_;  // before each node, in order of first reading
  std::set<std::pair<Part, int>> seen_;
  std::map<std::pair<Part, int>, ValueId> gathered_;
  std::map<std::pair<Part, ValueId>, ValueId> wholes_;
};

}  // namespace

void gather_parameters(Draft& draft) {
  if (draft.options.layout.zero_stage < 3) return;
  for (Graph& chunk : draft.chunks) Gathering(draft, chunk).run();
}

}  // namespace ingot::graph
