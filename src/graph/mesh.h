#pragma once
// The mesh: how ranks are numbered along prime axes, and groups as sets of axes. Programs speak of axes only;
// a rank's coordinates are filled in when a program is bound. To add an axis: one row in kAxisNames and
// Layout.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::graph {

// Prime axes, fastest first in rank order. tp = kv_replica * kv, dp = shard * replica. kv_replica holds the
// ranks that share a key-value head when tp exceeds the number of those heads; ep takes its ranks out of dp.
enum class Axis : uint8_t { kKvReplica, kKv, kCp, kEp, kShard, kReplica, kPp };
inline constexpr int kAxisCount = 7;
inline constexpr std::array<const char*, kAxisCount> kAxisNames = {"kv_replica", "kv",      "cp", "ep",
                                                                   "shard",      "replica", "pp"};

using AxisMask = uint8_t;  // a group: the set of axes along which its members differ
constexpr AxisMask mask_of(Axis axis) { return static_cast<AxisMask>(1U << static_cast<unsigned>(axis)); }
inline constexpr AxisMask kTpMask = mask_of(Axis::kKvReplica) | mask_of(Axis::kKv);
inline constexpr AxisMask kDpMask = mask_of(Axis::kShard) | mask_of(Axis::kReplica);
inline constexpr AxisMask kWorldMask = (1U << kAxisCount) - 1;

struct Mesh {
  std::array<int, kAxisCount> sizes{1, 1, 1, 1, 1, 1, 1};

  int size(Axis axis) const { return sizes[static_cast<size_t>(axis)]; }
  int group_size(AxisMask group) const;  // product of the sizes in the group
  int world() const { return group_size(kWorldMask); }
  int coordinate(int rank, Axis axis) const;
  int index(int rank, AxisMask group) const;                 // position of `rank` inside its group
  std::vector<int> members(int rank, AxisMask group) const;  // ranks of its group, by index
};

std::string group_name(AxisMask group);  // "tp", "dp", "world", "kv", "cp|dp"

// How the work is split: axes, and what is not an axis. Made from spec::ParallelSpec and the model's heads.
struct Layout {
  Mesh mesh;
  int zero_stage = 0;             // 0 here; 1 to 3 come with the distributed passes
  int micro_batches = 1;          // m, per replica and step
  std::string schedule = "1f1b";  // row of the table in passes/schedule.cc
  int virtual_stages = 1;
};

// kv_heads decides how tp factors into kv and kv_replica. Errors: a size that does not divide, with the
// nearest that do.
Result<Mesh> make_mesh(int dp, int tp, int pp, int cp, int ep, int kv_heads);

}  // namespace ingot::graph
