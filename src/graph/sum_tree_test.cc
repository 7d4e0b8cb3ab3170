#include "graph/sum_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace ingot::graph {
namespace {

TEST(SumTree, IsCutAtTheLargestPowerOfTwoBelowTheLength) {
  for (const auto& [length, cut] :
       std::map<int, int>{{2, 1}, {3, 2}, {4, 2}, {5, 4}, {8, 4}, {9, 8}, {12, 8}})
    EXPECT_EQ(tree_cut(length), cut) << length;
}

TEST(SumTree, BlocksAreTheirLargestBranches) {
  using Runs = std::vector<TreeRun>;
  EXPECT_EQ(branches_of(12, {0, 12}), (Runs{{0, 12}}));
  EXPECT_EQ(branches_of(12, {0, 6}), (Runs{{0, 4}, {4, 6}}));
  EXPECT_EQ(branches_of(12, {6, 12}), (Runs{{6, 8}, {8, 12}}));
  EXPECT_EQ(branches_of(12, {3, 6}), (Runs{{3, 4}, {4, 6}}));
  EXPECT_EQ(branches_of(20, {5, 10}), (Runs{{5, 6}, {6, 8}, {8, 10}}));
  EXPECT_EQ(waiting_branches(12, {0, 12}), 3);
  EXPECT_EQ(waiting_branches(12, {4, 6}), 1);
  EXPECT_EQ(waiting_branches(12, {7, 8}), 0);
  // At most two for each level of the tree.
  for (int leaves = 1; leaves <= 40; ++leaves)
    for (int begin = 0; begin < leaves; ++begin)
      for (int end = begin + 1; end <= leaves; ++end)
        EXPECT_LE(branches_of(leaves, {begin, end}).size(), std::max(1.0, 2 * std::ceil(std::log2(leaves))));
}

// Numbers whose sum depends on the order: added up in blocks, and these on, they give the tree's bits.
TEST(SumTree, HasTheSameBitsForEveryNumberOfBlocks) {
  const auto value = [](int leaf) { return std::pow(10.0, (leaf * 7) % 17 - 8) / 3; };
  for (const int leaves : {1, 2, 7, 12, 30, 48}) {
    const double expected = tree_sum({0, leaves}, value);
    for (int blocks = 1; blocks <= leaves; ++blocks) {
      if (leaves % blocks != 0) continue;
      TreeStack stack(leaves);
      std::vector<double> sums;
      for (int block = 0; block < blocks; ++block)
        for (const TreeRun& branch :
             branches_of(leaves, {block * leaves / blocks, (block + 1) * leaves / blocks})) {
          sums.push_back(tree_sum(branch, value));
          for (int added = stack.push(branch); added > 0; --added) {
            const double above = sums.back();
            sums.pop_back();
            sums.back() += above;
          }
        }
      EXPECT_EQ(sums, std::vector<double>{expected}) << leaves << " in " << blocks;
    }
  }
  double in_order = 0;
  for (int leaf = 0; leaf < 30; ++leaf) in_order += value(leaf);
  EXPECT_NE(in_order, tree_sum({0, 30}, value)) << "or the test shows nothing";
}

}  // namespace
}  // namespace ingot::graph
