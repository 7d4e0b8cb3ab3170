#pragma once
// Which part of a parameter a rank holds. The one answer for initialisation, checkpoints, export and
// resharding.

#include "graph/graph.h"

namespace ingot::graph {

// A box of the logical tensor: rows [first[d], first[d] + count[d]) along each dimension d. It lies at the
// start of the stored tensor; what is stored beyond `count` is padding (zero).
struct Region {
  int rank = 0;  // of the tensor
  std::array<int64_t, tensor::kMaxRank> first{}, count{};
  bool empty() const;
};

// The region of `parameter` (after partition) that `rank` of the mesh holds.
Region owned_region(const Parameter& parameter, const Mesh& mesh, int rank);

// True for one rank among those that hold the same region: the one with coordinate 0 along every axis on
// which the parameter is replicated. It writes checkpoints.
bool writes_region(const Parameter& parameter, const Mesh& mesh, int rank);

}  // namespace ingot::graph
