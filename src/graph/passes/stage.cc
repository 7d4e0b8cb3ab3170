#include <fmt/format.h>

#include "graph/passes/draft.h"

namespace ingot::graph {

Result<std::vector<Graph>> cut_stages(Graph graph, const CompileOptions& options, int stage) {
  const int stages = options.layout.mesh.size(Axis::kPp);
  if (stages != 1 || options.layout.virtual_stages != 1) {
    return invalid(
        fmt::format("pipeline stages (pp {}, virtual_stages {}) come with the distributed part; use pp 1 and "
                    "virtual_stages 1",
                    stages, options.layout.virtual_stages));
  }
  if (stage != 0) return invalid(fmt::format("there is no stage {}: pp is 1", stage));
  std::vector<Graph> chunks;
  chunks.push_back(std::move(graph));
  return chunks;
}

}  // namespace ingot::graph
