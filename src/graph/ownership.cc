#include "graph/ownership.h"

#include <algorithm>

namespace ingot::graph {
namespace {

bool sharded(const Parameter& parameter, int axis) {
  return parameter.places[static_cast<size_t>(axis)].kind == Placement::kSharded;
}

}  // namespace

bool Region::empty() const {
  for (int d = 0; d < rank; ++d) {
    if (count[static_cast<size_t>(d)] == 0) return true;
  }
  return false;
}

Region owned_region(const Parameter& parameter, const Mesh& mesh, int rank) {
  Region region;
  region.rank = parameter.logical.rank();
  for (int d = 0; d < region.rank; ++d) {
    AxisMask group = 0;
    for (int axis = 0; axis < kAxisCount; ++axis) {
      if (sharded(parameter, axis) && parameter.places[static_cast<size_t>(axis)].dim == d)
        group = static_cast<AxisMask>(group | mask_of(static_cast<Axis>(axis)));
    }
    const int64_t extent = parameter.logical[d];
    const int64_t part = group == 0 ? extent : parameter.stored[d];
    const int64_t first = std::min(extent, part * mesh.index(rank, group));
    region.first[static_cast<size_t>(d)] = first;
    region.count[static_cast<size_t>(d)] = std::min(part, extent - first);
  }
  return region;
}

bool writes_region(const Parameter& parameter, const Mesh& mesh, int rank) {
  for (int axis = 0; axis < kAxisCount; ++axis) {
    if (static_cast<Axis>(axis) == Axis::kPp) continue;  // a stage's programs list its own parameters only
    if (!sharded(parameter, axis) && mesh.coordinate(rank, static_cast<Axis>(axis)) != 0) return false;
  }
  return true;
}

}  // namespace ingot::graph
