#include <fmt/format.h>

#include "graph/passes/draft.h"

namespace ingot::graph {

// The ring form of attention and the sinking of weight gradients past collectives belong here; both reorder
// or replace nodes inside a phase and need no derivative rule.
Result<void> lower(Graph& graph, const CompileOptions& options) {
  const int cp = options.layout.mesh.size(Axis::kCp);
  if (cp == 1) return {};
  return invalid(
      fmt::format("context parallelism (cp {}, over {} nodes) comes with the distributed part; use cp 1", cp,
                  graph.nodes.size()));
}

}  // namespace ingot::graph
