#include "launch/multi_node.h"

#include <gtest/gtest.h>

namespace ingot::launch {
namespace {

MultiNode of_two_hosts() {
  MultiNode start;
  start.ranks = 6;
  start.hosts = {"node-0:4", "node-1:2"};
  start.words = {"ingot", "train", "run.toml", "--set=run.seed=3"};
  return start;
}

TEST(MultiNode, MpirunWhereHostsAreNamed) {
  MultiNode start = of_two_hosts();
  start.passed = {"INGOT_CACHE"};
  EXPECT_EQ(in_a_line(*engine_command(start)),
            "mpirun -n 6 --host node-0:4,node-1:2 --bind-to none -x INGOT_ADDRESS=node-0:29500 -x "
            "INGOT_CACHE ingot "
            "train run.toml --set=run.seed=3");
}

TEST(MultiNode, SrunWhereSlurmChooses) {
  MultiNode start = of_two_hosts();
  start.hosts.clear();
  EXPECT_EQ(in_a_line(*engine_command(start)),
            "srun --ntasks 6 --kill-on-bad-exit=1 ingot train run.toml --set=run.seed=3");
  start.nodes = 3;
  EXPECT_EQ(in_a_line(*engine_command(start)),
            "srun --ntasks 6 --kill-on-bad-exit=1 --nodes 3 ingot train run.toml --set=run.seed=3");
}

TEST(MultiNode, HostsHoldRanks) {
  EXPECT_EQ(*ranks_of({"a:4", "b"}), 5);
  EXPECT_EQ(ranks_of({"a:x"}).error().message,
            "--hosts   'a:x' is no host; write node-0:4,node-1:4, with the ranks of each");
  EXPECT_FALSE(ranks_of({"a:0"}));
  EXPECT_FALSE(ranks_of({""}));
}

TEST(MultiNode, WordsForAShell) { EXPECT_EQ(in_a_line({"a", "b c", "it's", ""}), "a 'b c' 'it'\\''s' ''"); }

}  // namespace
}  // namespace ingot::launch
