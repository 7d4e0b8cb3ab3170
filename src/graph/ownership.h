#pragma once
// Which part of a parameter a rank holds. The one answer for initialisation, update, checkpoints, export and
// resharding: a box of the logical tensor by tensor parallelism, and of the elements stored for it a
// consecutive stretch by ZeRO.

#include <string_view>

#include "graph/program.h"

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
// which the parameter is replicated, but for `cut`, whose ranks hold different elements of it; of the first
// stage where several hold a tied one. It writes checkpoints.
bool writes_region(const Parameter& parameter, const Mesh& mesh, int rank, AxisMask cut = 0);

// True where a rank keeps only its shard of a bucket's buffer of `kind`: "param", "grad", "exp_avg" or
// "exp_avg_sq".
bool cut_by_zero(std::string_view kind, int zero_stage);

// Elements [first, first + count) of a stored parameter, row-major.
struct Stretch {
  int64_t first = 0, count = 0;
};

// Of the bucket's `index`-th parameter: what `rank` updates, which is all that it holds of what ZeRO cuts.
// All of it without ZeRO; shards of a bucket cut parameters anywhere, and may hold none of one (count 0).
Stretch owned_stretch(const Bucket& bucket, size_t index, const Parameter& parameter, const Mesh& mesh,
                      int rank);
// Of the same parameter: what it holds in the buffer of `kind`.
Stretch held_stretch(const Bucket& bucket, size_t index, const Parameter& parameter, std::string_view kind,
                     const Layout& layout, int rank);

}  // namespace ingot::graph
