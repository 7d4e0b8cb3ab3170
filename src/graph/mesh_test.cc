#include "graph/mesh.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ingot::graph {
namespace {

TEST(Mesh, RanksAreNumberedFastestAxisFirst) {
  const Mesh mesh = make_mesh(3, 4, 2, 1, 1, 2).value();
  EXPECT_EQ(mesh.world(), 24);
  EXPECT_EQ(mesh.size(Axis::kKv), 2);
  EXPECT_EQ(mesh.size(Axis::kKvReplica), 2);
  EXPECT_EQ(mesh.coordinate(1, Axis::kKvReplica), 1);
  EXPECT_EQ(mesh.coordinate(2, Axis::kKv), 1);
  EXPECT_EQ(mesh.coordinate(4, Axis::kShard), 1);
  EXPECT_EQ(mesh.coordinate(12, Axis::kPp), 1);
}

TEST(Mesh, GroupsPartitionTheWorldAndKnowTheirIndex) {
  const Mesh mesh = make_mesh(4, 6, 2, 3, 2, 2).value();
  EXPECT_EQ(mesh.world(), 4 * 6 * 2 * 3);
  for (const AxisMask group : {kTpMask, kDpMask, mask_of(Axis::kKv), mask_of(Axis::kCp), kWorldMask,
                               static_cast<AxisMask>(kTpMask | mask_of(Axis::kPp)), AxisMask{0}}) {
    std::vector<int> seen(static_cast<size_t>(mesh.world()), 0);
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const std::vector<int> members = mesh.members(rank, group);
      ASSERT_EQ(static_cast<int>(members.size()), mesh.group_size(group));
      EXPECT_EQ(members[static_cast<size_t>(mesh.index(rank, group))], rank);
      for (const int member : members) {
        ++seen[static_cast<size_t>(member)];
        EXPECT_EQ(mesh.members(member, group), members);
      }
    }
    for (const int count : seen) EXPECT_EQ(count, mesh.group_size(group));
  }
}

TEST(Mesh, TheFirstAndTheLastStageHoldTiedTensors) {
  const Mesh mesh = make_mesh(2, 2, 3, 1, 1, 2).value();
  EXPECT_EQ(mesh.group_size(kTiedMask), 2);
  EXPECT_EQ(mesh.members(1, kTiedMask), (std::vector<int>{1, 9}));
  EXPECT_EQ(mesh.members(9, kTiedMask), (std::vector<int>{1, 9}));
  EXPECT_EQ(mesh.index(1, kTiedMask), 0);
  EXPECT_EQ(mesh.index(9, kTiedMask), 1);
  const auto with_dp = static_cast<AxisMask>(kTiedMask | kDpMask);
  EXPECT_EQ(mesh.members(11, with_dp), (std::vector<int>{1, 3, 9, 11}));
  EXPECT_EQ(mesh.index(11, with_dp), 3);
  EXPECT_EQ(make_mesh(2, 2, 1, 1, 1, 2).value().members(1, kTiedMask), std::vector<int>{1});
}

TEST(Mesh, TpFactorsByKeyValueHeads) {
  const auto factors = [](int tp, int kv_heads) {
    const Mesh mesh = make_mesh(1, tp, 1, 1, 1, kv_heads).value();
    return std::pair{mesh.size(Axis::kKv), mesh.size(Axis::kKvReplica)};
  };
  EXPECT_EQ(factors(4, 8), std::pair(4, 1));
  EXPECT_EQ(factors(8, 8), std::pair(8, 1));
  EXPECT_EQ(factors(8, 2), std::pair(2, 4));
  EXPECT_EQ(factors(6, 3), std::pair(3, 2));
  EXPECT_EQ(factors(1, 5), std::pair(1, 1));
}

TEST(Mesh, DpFactorsByZeroGroup) {
  const Mesh mesh = make_mesh(6, 2, 1, 2, 1, 2, 3).value();
  EXPECT_EQ(mesh.size(Axis::kShard), 3);
  EXPECT_EQ(mesh.size(Axis::kReplica), 2);
  EXPECT_EQ(mesh.world(), 24);
  // Two context parallel ranks of each of three data parallel ones; tp 2 lies inside.
  EXPECT_EQ(mesh.members(1, kZeroMask), (std::vector<int>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(make_mesh(6, 1, 1, 1, 1, 1).value().size(Axis::kReplica), 1);
}

TEST(Mesh, RefusesWithTheNearestSizes) {
  EXPECT_EQ(
      make_mesh(1, 4, 1, 1, 1, 6).error().message,
      "parallel.tp is 4, which neither divides the 6 key-value heads nor is a multiple of them; use 3 or 6");
  EXPECT_EQ(
      make_mesh(1, 9, 1, 1, 1, 6).error().message,
      "parallel.tp is 9, which neither divides the 6 key-value heads nor is a multiple of them; use 6 or 12");
  EXPECT_EQ(make_mesh(12, 1, 1, 1, 5, 1).error().message,
            "parallel.ep is 5, which does not divide dp 12; use 4 or 6");
  EXPECT_EQ(make_mesh(12, 1, 1, 1, 1, 1, 5).error().message,
            "parallel.zero_group is 5, which does not divide dp 12; use 4 or 6");
  EXPECT_EQ(make_mesh(12, 1, 1, 1, 2, 1, 4).error().message,
            "parallel.zero_group is 4, which does not divide dp 12 / ep 2; use 3 or 6");
  EXPECT_EQ(make_mesh(0, 1, 1, 1, 1, 1).error().message, "parallel.dp is 0; it must be at least 1");
}

TEST(Context, APartOfTheHeadAndOneOfTheTailForEveryRank) {
  EXPECT_EQ(context_positions(8, 2, 0), (std::vector<int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(context_positions(8, 2, 1), (std::vector<int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(context_positions(5, 1, 0), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  for (const int cp : {2, 3, 5}) {
    const int64_t length = int64_t{8} * cp;
    std::vector<int64_t> seen(static_cast<size_t>(length), 0);
    int64_t first_work = -1;
    for (int rank = 0; rank < cp; ++rank) {
      int64_t work = 0;  // keys that its queries see
      for (const int64_t position : context_positions(length, cp, rank)) {
        ++seen[static_cast<size_t>(position)];
        work += position + 1;
      }
      if (first_work < 0) first_work = work;
      EXPECT_EQ(work, first_work);
    }
    EXPECT_EQ(seen, std::vector<int64_t>(static_cast<size_t>(length), 1));
  }
}

TEST(Context, RefusesWithTheNearestLengths) {
  EXPECT_TRUE(check_context(48, 3));
  EXPECT_TRUE(check_context(7, 1));
  EXPECT_EQ(
      check_context(50, 4).error().message,
      "a sequence of 50 tokens does not divide in the 8 parts that parallel.cp = 4 needs; use a data.seq_len "
      "of 48 or 56");
  EXPECT_EQ(
      check_context(3, 2).error().message,
      "a sequence of 3 tokens does not divide in the 4 parts that parallel.cp = 2 needs; use a data.seq_len "
      "of 4");
}

TEST(Mesh, NamesGroups) {
  EXPECT_EQ(group_name(kTpMask), "tp");
  EXPECT_EQ(group_name(kDpMask), "dp");
  EXPECT_EQ(group_name(kWorldMask), "world");
  EXPECT_EQ(group_name(mask_of(Axis::kKv)), "kv");
  EXPECT_EQ(group_name(static_cast<AxisMask>(mask_of(Axis::kCp) | kDpMask)), "cp|dp");
  EXPECT_EQ(group_name(static_cast<AxisMask>(kTpMask | mask_of(Axis::kShard))), "tp|shard");
  EXPECT_EQ(group_name(static_cast<AxisMask>(kDpMask | kTiedMask)), "dp|tied");
  EXPECT_EQ(group_name(0), "");
}

}  // namespace
}  // namespace ingot::graph
