#include "graph/sum_tree.h"

#include <algorithm>

namespace ingot::graph {

bool is_branch(int leaves, TreeRun run) {
  TreeRun branch{0, leaves};
  while (branch != run && branch.end - branch.begin > 1) {
    const int middle = branch.begin + tree_cut(branch.end - branch.begin);
    (run.begin < middle ? branch.end : branch.begin) = middle;
  }
  return branch == run;
}

int TreeStack::push(TreeRun branch) {
  int added = 0;
  branches_.push_back(branch);
  while (branches_.size() > 1) {
    const TreeRun sum{branches_[branches_.size() - 2].begin, branches_.back().end};
    if (!is_branch(leaves_, sum)) break;
    branches_.pop_back();
    branches_.back() = sum;
    ++added;
  }
  return added;
}

std::vector<TreeRun> branches_of(int leaves, TreeRun block) {
  TreeStack stack(leaves);
  for (int leaf = block.begin; leaf < block.end; ++leaf) stack.push({leaf, leaf + 1});
  return stack.branches();
}

int waiting_branches(int leaves, TreeRun block) {
  TreeStack stack(leaves);
  size_t most = 0;
  for (int leaf = block.begin; leaf + 1 < block.end; ++leaf) {
    stack.push({leaf, leaf + 1});
    most = std::max(most, stack.branches().size());
  }
  return static_cast<int>(most);
}

}  // namespace ingot::graph
