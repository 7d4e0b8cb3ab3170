#include "launch/judge.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>

namespace ingot::launch {
namespace {

using comm::RankState;

constexpr int64_t kSecond = 1'000'000'000;

RankView waiting_view(int rank, int peer, int64_t age_ns) {
  RankView view;
  view.rank = view.local_rank = rank;
  std::strcpy(view.node.data(), "vm");
  view.state = RankState::kWaiting;
  view.process = 'S';
  view.step = 7;
  view.instruction = 12;
  view.peer = peer;
  view.state_age_ns = age_ns;
  view.heartbeat_age_ns = 0;
  view.limit_ns = 2 * kSecond;
  return view;
}

// Three ranks of one node that wait in a ring.
Judge three(int64_t age_ns, int stopped = -1) {
  Judge judge(3, "vm");
  for (int rank = 0; rank < 3; ++rank) {
    RankView view = waiting_view(rank, (rank + 1) % 3, age_ns);
    if (rank == stopped) view.process = 'T';
    judge.see(view, 0);
  }
  return judge;
}

TEST(Judge, ADeathByASignalIsNamedAtOnce) {
  Judge judge = three(0);
  EXPECT_FALSE(judge.verdict(0));
  judge.see_ended(1, {.signal = SIGKILL}, 0);
  ASSERT_TRUE(judge.verdict(0));
  EXPECT_EQ(judge.verdict(0)->code, 4);
  EXPECT_EQ(judge.verdict(0)->rank, 1);
  EXPECT_EQ(
      judge.verdict(0)->sentence,
      "rank 1 (vm, local 1) was ended by signal 9 (Killed) in step 7; if nobody did that, memory ran out "
      "(dmesg says so)");
  judge.see_ended(2, {.signal = SIGSEGV}, 1);
  EXPECT_EQ(judge.verdict(1)->rank, 1) << "the first cause stays";
}

// Survivors of a death notice it too, and may be gone before the death is known.
TEST(Judge, WhoGivesUpIsNotTheCause) {
  Judge judge = three(0);
  judge.see_ended(0, {.code = 4}, 0);
  judge.see_ended(2, {.code = 4}, kSecond / 100);
  EXPECT_FALSE(judge.verdict(kSecond / 50));
  judge.see_ended(1, {.signal = SIGSEGV}, kSecond / 20);
  ASSERT_TRUE(judge.verdict(kSecond / 20));
  EXPECT_EQ(judge.verdict(kSecond / 20)->rank, 1);
}

TEST(Judge, WhoGivesUpAloneIsToldInTheEnd) {
  Judge judge = three(0);
  judge.see_ended(0, {.code = 4}, 0);
  EXPECT_FALSE(judge.verdict(Judge::kPatienceNs - 1));
  ASSERT_TRUE(judge.verdict(Judge::kPatienceNs));
  EXPECT_EQ(judge.verdict(Judge::kPatienceNs)->sentence,
            "rank 0 (vm, local 0) ended with exit code 4 in step 7");
}

TEST(Judge, AnExitCodeOfItsOwnIsTheCodeOfAll) {
  Judge judge = three(0);
  judge.see_ended(2, {.code = 2}, 0);
  ASSERT_TRUE(judge.verdict(0));
  EXPECT_EQ(judge.verdict(0)->code, 2);
  EXPECT_EQ(judge.verdict(0)->rank, 2);
}

TEST(Judge, WarnsAtALimitAndEndsAtTwo) {
  Judge judge = three(kSecond, 2);
  EXPECT_FALSE(judge.new_warning(0));
  judge = three(21 * kSecond / 10, 2);
  const auto warning = judge.new_warning(0);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("rank 2 (vm, local 2) has not arrived at #12 of step 7 for 2.1 s"),
            std::string::npos)
      << *warning;
  EXPECT_FALSE(judge.new_warning(1)) << "once";
  EXPECT_FALSE(judge.verdict(0));
  for (int rank = 0; rank < 3; ++rank) judge.see(waiting_view(rank, (rank + 1) % 3, 0), kSecond);
  EXPECT_FALSE(judge.new_warning(kSecond)) << "it went on";
  judge = three(41 * kSecond / 10, 2);
  ASSERT_TRUE(judge.verdict(0));
  EXPECT_EQ(judge.verdict(0)->rank, 2);
  EXPECT_TRUE(judge.verdict(0)->waiting);
  EXPECT_EQ(judge.verdict(0)->code, 4);
}

// All healthy ranks left by their own limit before the agent looked: whom they waited for is still known.
TEST(Judge, AStoppedRankIsNamedThoughAllOthersHaveLeft) {
  Judge judge = three(39 * kSecond / 10, 2);
  judge.see_ended(1, {.code = 4}, 0);
  judge.see_ended(0, {.code = 4}, 0);
  ASSERT_TRUE(judge.verdict(0));
  EXPECT_EQ(judge.verdict(0)->rank, 2);
  EXPECT_NE(judge.verdict(0)->sentence.find("It is stopped"), std::string::npos)
      << judge.verdict(0)->sentence;
}

TEST(Judge, AnAgentThatIsGoneTakesItsRankWithIt) {
  Judge judge = three(0);
  judge.see_lost({1}, 0);
  ASSERT_TRUE(judge.verdict(0));
  EXPECT_EQ(judge.verdict(0)->sentence,
            "the process that watches rank 1 (vm, local 1) is gone, and its rank with it");
  Judge other = three(0);
  other.see_ended(1, {.code = 0}, 0);
  other.see_lost({1}, 0);
  EXPECT_FALSE(other.verdict(0)) << "its rank had ended in order";
}

TEST(Judge, AllInOrder) {
  Judge judge = three(0);
  judge.see_ended(0, {.code = 3}, 0);
  judge.see_ended(1, {.code = 0}, 0);
  EXPECT_FALSE(judge.all_ended());
  judge.see_ended(2, {.code = 3}, 0);
  judge.see_ended(2, {.code = 3}, 0);
  EXPECT_TRUE(judge.all_ended());
  EXPECT_FALSE(judge.verdict(0));
  EXPECT_EQ(judge.code_of_all(), 3);
}

}  // namespace
}  // namespace ingot::launch
