#include <algorithm>

#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

// Bytes that come alive and die at each instruction of a segment; every micro-batch repeats them.
struct Change {
  int64_t born = 0, workspace = 0, died = 0;
};

}  // namespace

int64_t unrolled_live_bytes(const Draft& draft) {
  std::vector<std::vector<Change>> changes(draft.segments.size());
  for (size_t s = 0; s < draft.segments.size(); ++s) changes[s].resize(draft.segments[s].instructions.size());
  for (size_t chunk = 0; chunk < draft.chunks.size(); ++chunk) {
    const Graph& graph = draft.chunks[chunk];
    std::vector<Change*> last(graph.values.size(), nullptr);
    for (size_t s = 0; s < draft.segments.size(); ++s) {
      const Segment& segment = draft.segments[s];
      if (segment.chunk != static_cast<int>(chunk)) continue;
      for (size_t k = 0; k < segment.instructions.size(); ++k) {
        const Instruction& instruction = segment.instructions[k];
        const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
        changes[s][k].workspace = instruction.workspace_bytes;
        for (const std::vector<ValueId>* operands : {&node.inputs, &node.outputs})
          for (const ValueId id : *operands) {
            const ValueId root = root_of(graph, id).value;
            const Value& value = graph.value(root);
            if (value.buffer >= 0) continue;
            Change*& death = last[static_cast<size_t>(root)];
            if (death == nullptr) changes[s][k].born += value.bytes();
            if (death != nullptr) death->died -= value.bytes();
            death = &changes[s][k];
            death->died += value.bytes();
          }
      }
    }
  }
  int64_t live = 0, greatest = 0;
  for (const Invocation& invocation : draft.timeline)
    for (const Change& change : changes[static_cast<size_t>(invocation.segment)]) {
      live += change.born;
      greatest = std::max(greatest, live + change.workspace);
      live -= change.died;
    }
  return greatest;
}

}  // namespace ingot::graph
