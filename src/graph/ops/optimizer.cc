// sum_squares, control, adamw: the end of a step. Their outputs are state, given by the pass that adds them.
#include "graph/ops/rules.h"

namespace ingot::graph {

// Three blocks of sixteen numbers: time is that of starting it.
OpCost control_cost(const Graph& graph, const Node& node) { return cost_of_bytes(graph, node); }

}  // namespace ingot::graph
