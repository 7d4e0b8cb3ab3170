#include "launch/stuck.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace ingot::launch {
namespace {

using comm::RankState;

constexpr int64_t kSecond = 1'000'000'000;

// Two ranks a node, all alive and waiting for their left neighbour in a ring, since 2.5 s of a limit of 2 s.
std::vector<RankView> ring_of(int ranks) {
  std::vector<RankView> views(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    RankView& view = views[static_cast<size_t>(r)];
    view.rank = r;
    view.local_rank = r % 2;
    std::strcpy(view.node.data(), ("node-" + std::to_string(r / 2)).c_str());
    std::strcpy(view.words.data(), "all_reduce #88 (gradients of layer 12, 50 MiB)");
    view.state = RankState::kWaiting;
    view.process = 'S';
    view.pid = 1000 + r;
    view.step = 41;
    view.instruction = 88;
    view.sequence = 600;
    view.peer = (r + ranks - 1) % ranks;
    view.state_age_ns = 25 * kSecond / 10;
    view.heartbeat_age_ns = kSecond / 10;
    view.limit_ns = 2 * kSecond;
  }
  return views;
}

Stuck stuck_in(const std::vector<RankView>& views, double limits = 1) {
  const auto found = find_stuck(views, limits, "node-0");
  return found.value_or(Stuck{.rank = -2, .sentence = "nothing"});
}

TEST(Stuck, NobodyWhileWaitsAreShort) {
  auto views = ring_of(4);
  EXPECT_EQ(stuck_in(views, 2).sentence, "nothing");
  for (RankView& view : views) view.state = RankState::kComputing;
  EXPECT_EQ(stuck_in(views).sentence, "nothing");
  views = ring_of(4);
  for (RankView& view : views) view.limit_ns = 0;
  EXPECT_EQ(stuck_in(views).sentence, "nothing") << "a wait without a limit may last";
}

TEST(Stuck, AStoppedRankInsideACollectiveIsNamedThoughAllWaitAtTheSame) {
  for (int stopped = 0; stopped < 4; ++stopped) {
    auto views = ring_of(4);
    views[static_cast<size_t>(stopped)].process = 'T';
    views[static_cast<size_t>(stopped)].heartbeat_age_ns = 3 * kSecond;
    EXPECT_EQ(stuck_in(views).rank, stopped);
    EXPECT_NEAR(stuck_in(views).waited, 1.25, 1e-9);
  }
  auto views = ring_of(4);
  views[3].process = 'T';
  EXPECT_EQ(
      stuck_in(views).sentence,
      "rank 3 (node-1, local 1) has not arrived at all_reduce #88 (gradients of layer 12, 50 MiB) of step "
      "41 for 2.5 s; 3 of 4 ranks wait. It is stopped (process 1003), since #88 of step 41");
}

// One that has just given up is no longer seen waiting; the stopped one's last state says that it waits for
// it.
TEST(Stuck, AStoppedRankIsNamedThoughItLooksLikeOneThatWaits) {
  auto views = ring_of(4);
  views[3].process = 'T';
  views[3].state_age_ns = 4 * kSecond;
  views[2].state = RankState::kComputing;
  views[2].state_age_ns = 0;
  EXPECT_EQ(stuck_in(views).rank, 3);
}

TEST(Stuck, ALongWaitIsShortForARankThatIsStopped) {
  auto views = ring_of(4);
  for (RankView& view : views) {
    view.limit_ns = 600 * kSecond;
    view.patience_ns = 2 * kSecond;
  }
  EXPECT_EQ(stuck_in(views).sentence, "nothing") << "a save may take long";
  views[1].process = 'T';
  EXPECT_EQ(stuck_in(views).rank, 1);
}

TEST(Stuck, AStaleHeartbeatIsEnough) {
  auto views = ring_of(4);
  views[2].heartbeat_age_ns = 26 * kSecond / 10;
  const Stuck stuck = stuck_in(views);
  EXPECT_EQ(stuck.rank, 2);
  EXPECT_NE(stuck.sentence.find("It has shown no sign of life for 2.6 s"), std::string::npos)
      << stuck.sentence;
}

TEST(Stuck, TheEndOfTheChainIsNamedNotTheFirstWhoIsWaitedFor) {
  auto views = ring_of(4);
  views[0].peer = 2;
  views[2].peer = 1;
  views[3].peer = 0;
  views[1].state = RankState::kComputing;
  views[1].sequence = 598;
  views[1].instruction = 61;
  const Stuck stuck = stuck_in(views);
  EXPECT_EQ(stuck.rank, 1);
  EXPECT_EQ(
      stuck.sentence,
      "rank 1 (node-0, local 1) has not arrived at all_reduce #88 (gradients of layer 12, 50 MiB) of step "
      "41 for 2.5 s; 3 of 4 ranks wait. It has been computing for 2.5 s, since #61 of step 41");
}

TEST(Stuck, AStoppedRankIsNamedThoughTheChainIsOfAMomentAgo) {
  auto views = ring_of(4);
  for (RankView& view : views) view.peer = -1;
  views[1].process = 'T';
  EXPECT_EQ(stuck_in(views).rank, 1);
}

TEST(Stuck, ARankThatWasNeverHeardOf) {
  auto views = ring_of(4);
  views[3] = RankView{};
  views[0].peer = 3;
  EXPECT_EQ(stuck_in(views).rank, 3);
  EXPECT_EQ(stuck_in(views).sentence,
            "rank 3 has not been heard of, and rank 0 (node-0, local 0) has waited for 2.5 s");
}

TEST(Stuck, ASilentNodeIsNamedWithOurs) {
  auto views = ring_of(6);
  for (const size_t r : {4U, 5U}) views[r].report_age_ns = 5 * kSecond;
  const Stuck stuck = stuck_in(views);
  EXPECT_EQ(stuck.rank, -1);
  EXPECT_NE(stuck.sentence.find("node-0 and node-2 do not reach each other"), std::string::npos)
      << stuck.sentence;
}

// The link between nodes 1 and 2 is cut, both reach node 0: all live, and rank 4 waits for rank 3.
TEST(Stuck, ACutLinkIsNamedAsAPairOfNodesWhereAllLive) {
  auto views = ring_of(6);
  views[4].state_age_ns = 4 * kSecond;
  EXPECT_EQ(
      stuck_in(views).sentence,
      "node-2 and node-1 do not reach each other: all ranks live, and rank 4 (node-2, local 0) has waited "
      "in all_reduce #88 (gradients of layer 12, 50 MiB) for rank 3 (node-1, local 1) for 4.0 s");
}

TEST(Stuck, ACircleInOneNodeIsToldAsOne) {
  auto views = ring_of(2);
  std::strcpy(views[1].words.data(), "receive #90");
  const Stuck stuck = stuck_in(views);
  EXPECT_EQ(stuck.rank, -1);
  EXPECT_EQ(stuck.sentence,
            "all ranks live and wait for each other, for 2.5 s: rank 0 (node-0, local 0) in all_reduce #88 "
            "(gradients of layer 12, 50 MiB) of step 41, rank 1 (node-0, local 1) in receive #90 of step 41");
}

}  // namespace
}  // namespace ingot::launch
