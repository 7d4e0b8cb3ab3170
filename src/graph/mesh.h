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
inline constexpr AxisMask kCpMask = mask_of(Axis::kCp);
inline constexpr AxisMask kDpMask = mask_of(Axis::kShard) | mask_of(Axis::kReplica);
inline constexpr AxisMask kWorldMask = (1U << kAxisCount) - 1;
// The first and the last stage, which hold a tied tensor: part of an axis, so a bit of its own. Ranks of
// other stages are in no such group.
inline constexpr AxisMask kTiedMask = 1U << kAxisCount;

// Ranks that share out state under ZeRO: a shard group of data parallel ranks, and with each of them the
// context parallel ranks, which hold the same parameters and sit nearest.
inline constexpr AxisMask kZeroMask = mask_of(Axis::kCp) | mask_of(Axis::kShard);

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

// How attention sees the keys and values of other ranks' parts of a sequence: they go round from rank to rank
// while each works on the ones that it has, or every rank gathers all of them first.
enum class ContextMode : uint8_t { kRing, kGather };

// How the work is split: axes, and what is not an axis. Made from spec::ParallelSpec and the model's heads.
struct Layout {
  Mesh mesh;
  // What the ranks of a shard group (kZeroMask) share out: 1 optimizer state, 2 and gradients, 3 and
  // parameters.
  int zero_stage = 0;
  int micro_batches = 1;  // m, of this replica in a step
  // Where replicas take different numbers: of each. Empty: all take micro_batches.
  std::vector<int> replica_micro_batches{};
  // Above 0: determinism = "layout" (graph/sum_tree.h). The micro-batches of all replicas form so many equal
  // groups; sums are the same bits for every dp that divides them.
  int determinism_groups = 0;
  int replica = 0;                // of dp, whose program it is: matters with determinism_groups alone
  std::string schedule = "1f1b";  // row of the table in passes/schedule.cc
  int virtual_stages = 1;
  // Most bytes of gradients that are reduced at once: the parameters of a layer are cut into several buckets
  // where they hold more; a parameter is never cut.
  int64_t bucket_bytes = int64_t{64} << 20;
  ContextMode context_mode = ContextMode::kRing;  // where cp > 1
  // The first layer of each chunk of the model, in order; the first is -1. Empty: chosen by cost, in training
  // only. Programs over one state take those of its training program (Program::layout).
  std::vector<int> first_layers{};

  int chunks() const { return mesh.size(Axis::kPp) * virtual_stages; }
};

// kv_heads decides how tp factors into kv and kv_replica; zero_group (0: all of dp) how dp factors into shard
// and replica. Errors: a size that does not divide, with the nearest that do.
Result<Mesh> make_mesh(int dp, int tp, int pp, int cp, int ep, int kv_heads, int zero_group = 0);

// The positions of a sample that member `index` of cp holds, in order: of 2 cp chunks the index-th from the
// head and the index-th from the tail, so that every rank has the same work below the diagonal. The loader
// fills a rank's batch fields with these columns of [B, T]; nothing else knows of the order. `sequence` has
// passed check_context.
std::vector<int64_t> context_positions(int64_t sequence, int cp, int index);
// Errors: a sequence that 2 cp does not divide, with the nearest lengths that it does.
Result<void> check_context(int64_t sequence, int cp);

}  // namespace ingot::graph
