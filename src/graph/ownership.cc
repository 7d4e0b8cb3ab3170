#include "graph/ownership.h"

#include <algorithm>
#include <array>

#include "base/check.h"

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

bool writes_region(const Parameter& parameter, const Mesh& mesh, int rank, AxisMask cut) {
  // A stage's programs list its own parameters only; of those that hold a tied one the first writes it.
  if (parameter.tied && mesh.coordinate(rank, Axis::kPp) != 0) return false;
  for (int axis = 0; axis < kAxisCount; ++axis) {
    if (static_cast<Axis>(axis) == Axis::kPp) continue;
    if ((cut & mask_of(static_cast<Axis>(axis))) != 0) continue;
    if (!sharded(parameter, axis) && mesh.coordinate(rank, static_cast<Axis>(axis)) != 0) return false;
  }
  return true;
}

bool cut_by_zero(std::string_view kind, int zero_stage) {
  constexpr std::array<std::pair<std::string_view, int>, 4> kFirstStage{
      {{"exp_avg", 1}, {"exp_avg_sq", 1}, {"grad", 2}, {"param", 3}}};
  const auto row = std::ranges::find(kFirstStage, kind, &std::pair<std::string_view, int>::first);
  INGOT_CHECK(row != kFirstStage.end(), "buckets have no buffer of kind {}", kind);
  return zero_stage >= row->second;
}

Stretch owned_stretch(const Bucket& bucket, size_t index, const Parameter& parameter, const Mesh& mesh,
                      int rank) {
  const int64_t begin = bucket.shard_elements * mesh.index(rank, bucket.shard_axes);
  const int64_t offset = bucket.offsets[index], count = parameter.stored.elements();
  const int64_t first = std::clamp<int64_t>(begin - offset, 0, count);
  const int64_t end = std::clamp<int64_t>(begin + bucket.shard_elements - offset, 0, count);
  return {first, end - first};
}

Stretch held_stretch(const Bucket& bucket, size_t index, const Parameter& parameter, std::string_view kind,
                     const Layout& layout, int rank) {
  if (!cut_by_zero(kind, layout.zero_stage)) return {0, parameter.stored.elements()};
  return owned_stretch(bucket, index, parameter, layout.mesh, rank);
}

}  // namespace ingot::graph
