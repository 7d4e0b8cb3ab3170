#include <algorithm>

#include "graph/passes/draft.h"

namespace ingot::graph {

void split_weights(Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);  // by the part that stays
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    Node& node = graph.nodes[k];
    if (node.phase != Phase::kBackward) continue;
    const bool accumulates = std::ranges::any_of(
        node.outputs, [&](ValueId id) { return graph.value(id).role == Role::kGradient; });
    // An unread clone serves weight gradients alone; an unread other node is there for its effect.
    const bool stays = !accumulates && (!node.clone || std::ranges::any_of(node.outputs, [&](ValueId id) {
      return bool{needed[static_cast<size_t>(id)]};
    }));
    if (!stays) {
      node.phase = Phase::kWeight;
      continue;
    }
    for (const ValueId input : node.inputs) needed[static_cast<size_t>(input)] = true;
  }
  std::ranges::stable_sort(graph.nodes, {}, &Node::phase);
}

}  // namespace ingot::graph
