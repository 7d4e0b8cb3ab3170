#include "comm/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ingot::comm {

Blocks blocks_of(const tensor::Shape& shape, int dim) {
  INGOT_CHECK(dim >= 0 && dim < shape.rank(), "dimension {} of a tensor {}", dim, shape.to_string());
  Blocks blocks{1, 1};
  for (int axis = 0; axis < shape.rank(); ++axis) (axis < dim ? blocks.outer : blocks.inner) *= shape[axis];
  return blocks;
}

int64_t bytes_of_row(const TensorView& tensor) {
  return tensor.shape.with(0, 1).elements() * tensor::size_of(tensor.dtype);
}

void check_rows(const TensorView& tensor, std::span<const int64_t> rows, int members) {
  INGOT_CHECK(tensor.shape.rank() >= 1, "all_to_all of a scalar");
  INGOT_CHECK(std::ssize(rows) == members, "{} counts for {} members", rows.size(), members);
  INGOT_CHECK(std::ranges::all_of(rows, [](int64_t count) { return count >= 0; }),
              "a negative count of rows");
  INGOT_CHECK(std::accumulate(rows.begin(), rows.end(), int64_t{0}) == tensor.shape[0],
              "the counts do not add up to the rows of {}", tensor.shape.to_string());
}

Result<void> check_members(std::span<const int> ranks, int own, int world) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= world)
      return invalid(fmt::format("a group of rank {}: this world has ranks 0 to {}", ranks[i], world - 1));
    if (std::ranges::find(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(i), ranks[i]) !=
        ranks.begin() + static_cast<std::ptrdiff_t>(i))
      return invalid(fmt::format("a group holds rank {} twice", ranks[i]));
  }
  if (std::ranges::find(ranks, own) == ranks.end())
    return invalid(fmt::format("rank {} makes a group that it is not in", own));
  return {};
}

Result<void> check_world(const graph::Mesh& mesh, int world) {
  if (mesh.world() == world) return {};
  return invalid(
      fmt::format("the mesh has {} ranks but this world has {}: start as many ranks as dp x tp x pp x cp",
                  mesh.world(), world));
}

Error differing_calls(const CallWords& one, const CallWords& other) {
  const auto tell = [](const CallWords& words) {
    return fmt::format("rank {} calls {} of {} as call {} of the group{}", words.rank, words.call,
                       tensor::name_of(words.dtype), words.sequence,
                       words.detail < 0 ? "" : fmt::format(" (dimension, root or tag {})", words.detail));
  };
  return {
      ErrorCode::kFault,
      fmt::format("{}, {}: all members must make the same calls in the same order. Check that all ranks run "
                  "the same program and version",
                  tell(one), tell(other))};
}

}  // namespace ingot::comm
