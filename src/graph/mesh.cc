#include "graph/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ingot::graph {
namespace {

constexpr unsigned bit(int axis) { return 1U << static_cast<unsigned>(axis); }

// Sizes near `wanted` that satisfy `works`: the greatest below and the least above, as people say it.
template <class Works>
std::string nearest_sizes(int wanted, int largest, const Works& works) {
  int below = 0, above = 0;
  for (int size = wanted - 1; size >= 1 && below == 0; --size)
    if (works(size)) below = size;
  for (int size = wanted + 1; size <= largest && above == 0; ++size)
    if (works(size)) above = size;
  if (below != 0 && above != 0) return fmt::format("{} or {}", below, above);
  return fmt::format("{}", below != 0 ? below : above);
}

}  // namespace

int Mesh::group_size(AxisMask group) const {
  int product = 1;
  for (int axis = 0; axis < kAxisCount; ++axis)
    if ((group & bit(axis)) != 0) product *= sizes[static_cast<size_t>(axis)];
  return (group & kTiedMask) != 0 ? product * std::min(2, size(Axis::kPp)) : product;
}

int Mesh::coordinate(int rank, Axis axis) const {
  for (int before = 0; before < static_cast<int>(axis); ++before) rank /= sizes[static_cast<size_t>(before)];
  return rank % size(axis);
}

int Mesh::index(int rank, AxisMask group) const {
  int position = 0, stride = 1;
  for (int axis = 0; axis < kAxisCount; ++axis) {
    if ((group & bit(axis)) == 0) continue;
    position += coordinate(rank, static_cast<Axis>(axis)) * stride;
    stride *= sizes[static_cast<size_t>(axis)];
  }
  if ((group & kTiedMask) != 0 && coordinate(rank, Axis::kPp) != 0) position += stride;
  return position;
}

std::vector<int> Mesh::members(int rank, AxisMask group) const {
  INGOT_CHECK(rank >= 0 && rank < world(), "rank {} of a world of {}", rank, world());
  const bool tied = (group & kTiedMask) != 0;
  const auto holds = [&](int other) {
    const int stage = coordinate(other, Axis::kPp);
    return !tied || stage == 0 || stage == size(Axis::kPp) - 1;
  };
  INGOT_CHECK(holds(rank), "rank {} is of no stage that holds a tied tensor", rank);
  const unsigned varying = group | (tied ? mask_of(Axis::kPp) : 0U);
  const auto rest = static_cast<AxisMask>(kWorldMask & ~varying);
  const int own = index(rank, rest);
  std::vector<int> result(static_cast<size_t>(group_size(group)), -1);
  for (int other = 0; other < world(); ++other)
    if (index(other, rest) == own && holds(other)) result[static_cast<size_t>(index(other, group))] = other;
  return result;
}

std::string group_name(AxisMask group) {
  if (group == kWorldMask) return "world";
  std::string name;
  const auto append = [&name](std::string_view part) {
    if (!name.empty()) name += '|';
    name += part;
  };
  unsigned rest = group;
  const auto take = [&](AxisMask whole, std::string_view word) {
    if ((rest & whole) != whole) return;
    append(word);
    rest &= ~unsigned{whole};
  };
  take(kTpMask, "tp");
  for (int axis = 0; axis <= static_cast<int>(Axis::kEp); ++axis)
    if ((rest & bit(axis)) != 0)
      take(static_cast<AxisMask>(bit(axis)), kAxisNames[static_cast<size_t>(axis)]);
  take(kDpMask, "dp");
  for (int axis = 0; axis < kAxisCount; ++axis)
    if ((rest & bit(axis)) != 0)
      take(static_cast<AxisMask>(bit(axis)), kAxisNames[static_cast<size_t>(axis)]);
  take(kTiedMask, "tied");
  return name;
}

std::vector<int64_t> context_positions(int64_t sequence, int cp, int index) {
  if (cp == 1) {
    std::vector<int64_t> all(static_cast<size_t>(sequence));
    std::iota(all.begin(), all.end(), int64_t{0});
    return all;
  }
  const int64_t chunks = int64_t{2} * cp, length = sequence / chunks;
  INGOT_CHECK(length * chunks == sequence && index >= 0 && index < cp, "{} positions for rank {} of {}",
              sequence, index, cp);
  std::vector<int64_t> positions;
  for (const int64_t chunk : {int64_t{index}, chunks - 1 - index})
    for (int64_t t = 0; t < length; ++t) positions.push_back(chunk * length + t);
  return positions;
}

Result<void> check_context(int64_t sequence, int cp) {
  const int64_t chunks = int64_t{2} * cp, below = sequence / chunks * chunks;
  if (cp == 1 || below == sequence) return {};
  return invalid(
      fmt::format("a sequence of {} tokens does not divide in the {} parts that parallel.cp = {} "
                  "needs; use a data.seq_len of {}{}",
                  sequence, chunks, cp, below > 0 ? fmt::format("{} or ", below) : "", below + chunks));
}

Result<Mesh> make_mesh(int dp, int tp, int pp, int cp, int ep, int kv_heads, int zero_group) {
  for (const auto& [name, size] : {std::pair{"dp", dp}, {"tp", tp}, {"pp", pp}, {"cp", cp}, {"ep", ep}})
    if (size < 1) return invalid(fmt::format("parallel.{} is {}; it must be at least 1", name, size));
  if (kv_heads < 1)
    return invalid(fmt::format("the model has {} key-value heads; it must have at least 1", kv_heads));
  const auto tp_works = [kv_heads](int size) { return kv_heads % size == 0 || size % kv_heads == 0; };
  if (!tp_works(tp)) {
    return invalid(fmt::format(
        "parallel.tp is {}, which neither divides the {} key-value heads nor is a multiple of them; use {}",
        tp, kv_heads, nearest_sizes(tp, tp * kv_heads, tp_works)));
  }
  const auto ep_works = [dp](int size) { return dp % size == 0; };
  if (!ep_works(ep)) {
    return invalid(fmt::format("parallel.ep is {}, which does not divide dp {}; use {}", ep, dp,
                               nearest_sizes(ep, dp, ep_works)));
  }
  const int shard = zero_group == 0 ? dp / ep : zero_group;
  const auto zero_works = [parts = dp / ep](int size) { return parts % size == 0; };
  if (shard < 1 || !zero_works(shard)) {
    return invalid(fmt::format("parallel.zero_group is {}, which does not divide dp {}{}; use {}", zero_group,
                               dp, ep > 1 ? fmt::format(" / ep {}", ep) : "",
                               nearest_sizes(shard, dp / ep, zero_works)));
  }
  Mesh mesh;
  const int kv = tp <= kv_heads ? tp : kv_heads;
  const auto set = [&mesh](Axis axis, int size) { mesh.sizes[static_cast<size_t>(axis)] = size; };
  set(Axis::kKvReplica, tp / kv);
  set(Axis::kKv, kv);
  set(Axis::kCp, cp);
  set(Axis::kEp, ep);
  set(Axis::kShard, shard);
  set(Axis::kReplica, dp / ep / shard);
  set(Axis::kPp, pp);
  return mesh;
}

}  // namespace ingot::graph
