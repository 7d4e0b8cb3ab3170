#pragma once
// The tree by which determinism = "layout" sums: over [0, leaves), each run of leaves is cut at the largest
// power of two below its length. A leaf is a group of micro-batches, or a piece of a gradient; whoever holds
// some neighbouring leaves adds up the largest whole branches of them, and whoever gets these adds on. So a
// sum has the same bits however the leaves are shared out.

#include <vector>

namespace ingot::graph {

// Leaves [begin, end).
struct TreeRun {
  int begin = 0, end = 0;
  bool operator==(const TreeRun&) const = default;
};

// Leaves of the left branch of a run of `length` leaves, at least 2.
constexpr int tree_cut(int length) {
  int cut = 1;
  while (2 * cut < length) cut *= 2;
  return cut;
}

// True where the tree over `leaves` adds up just this run.
bool is_branch(int leaves, TreeRun run);

// A stack of branches that grows from left to right: push() returns how many branches below the new one are
// added to it, one after the other, each with all that lies above.
class TreeStack {
 public:
  explicit TreeStack(int leaves) : leaves_(leaves) {}
  int push(TreeRun branch);
  const std::vector<TreeRun>& branches() const { return branches_; }

 private:
  int leaves_;
  std::vector<TreeRun> branches_;
};

// The largest branches that make up a block of leaves, from left to right.
std::vector<TreeRun> branches_of(int leaves, TreeRun block);

// How many of these wait at most while the last of their leaves is still being summed.
int waiting_branches(int leaves, TreeRun block);

// The sum of value(leaf) over a run.
template <class Value>
double tree_sum(TreeRun run, const Value& value) {
  if (run.end - run.begin == 1) return value(run.begin);
  const int middle = run.begin + tree_cut(run.end - run.begin);
  const double left = tree_sum({run.begin, middle}, value);
  return left + tree_sum({middle, run.end}, value);
}

}  // namespace ingot::graph
