#include <algorithm>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

class Recomputation {
 public:
  Recomputation(Graph& graph, Recompute mode)
      : graph_(graph), mode_(mode), nodes_(std::move(graph.nodes)), crosses_(graph.values.size(), false) {
    producer_.assign(graph.values.size(), -1);
    for (size_t k = 0; k < nodes_.size(); ++k)
      for (const ValueId output : nodes_[k].outputs)
        if (int& first = producer_[static_cast<size_t>(output)]; first < 0) first = static_cast<int>(k);
    for (const Node& node : nodes_) {
      if (node.phase != Phase::kForward) continue;
      for (const ValueId input : node.inputs)
        if (const int from = producer_[static_cast<size_t>(input)];
            from >= 0 && nodes_[static_cast<size_t>(from)].layer != node.layer)
          crosses_[static_cast<size_t>(input)] = true;
    }
    clones_.assign(graph.values.size(), kNoValue);
  }

  void run() {
    graph_.nodes.clear();
    for (Node& node : nodes_) {
      Node kept = node;
      if (kept.phase != Phase::kForward)
        for (ValueId& input : kept.inputs) input = available(input);
      graph_.nodes.push_back(std::move(kept));
    }
  }

 private:
  // Outputs with effects beyond themselves (sums, gradients, caches) are made once.
  bool has_effect(const Node& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId id) {
      return graph_.value(id).role == Role::kGradient || graph_.value(id).role == Role::kState;
    });
  }

  bool keeps(ValueId id) const {
    const int from = id < static_cast<ValueId>(producer_.size()) ? producer_[static_cast<size_t>(id)] : -1;
    if (from < 0) return true;
    const Node& node = nodes_[static_cast<size_t>(from)];
    const Role role = graph_.value(id).role;  // what is made of data alone is small
    if (node.phase != Phase::kForward || role == Role::kParameter || role == Role::kData) return true;
    if (node.op == Op::kReceive || has_effect(node)) return true;
    if (mode_ == Recompute::kFull)
      return crosses_[static_cast<size_t>(id)] || node.layer < 0 || node.layer >= graph_.layers ||
             node.op == Op::kHeadStats;
    // A residual sum is worth keeping: making it again would keep its summands, or chain back to the first
    // layer.
    return node.op == Op::kAdd || info(node.op).recompute == RecomputeClass::kExpensive;
  }

  ValueId available(ValueId id) {
    if (keeps(id)) return id;
    if (const ValueId clone = clones_[static_cast<size_t>(id)]; clone != kNoValue) return clone;
    Node node = nodes_[static_cast<size_t>(producer_[static_cast<size_t>(id)])];
    for (ValueId& input : node.inputs) input = available(input);
    for (ValueId& output : node.outputs) {
      Value value = graph_.value(output);
      value.name += ".again";
      const ValueId clone = graph_.add_value(std::move(value));
      clones_[static_cast<size_t>(output)] = clone;
      output = clone;
    }
    node.phase = Phase::kBackward;
    node.clone = true;
    graph_.nodes.push_back(std::move(node));
    return clones_[static_cast<size_t>(id)];
  }

  Graph& graph_;
  Recompute mode_;
  std::vector<Node> nodes_;
  std::vector<bool> crosses_;  // read by another layer than the one that makes it
  std::vector<int> producer_;
  std::vector<ValueId> clones_;
};

}  // namespace

void recompute(Graph& graph, Recompute mode) {
  if (mode != Recompute::kNone) Recomputation(graph, mode).run();
}

}  // namespace ingot::graph
