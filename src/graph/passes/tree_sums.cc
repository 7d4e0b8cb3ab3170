// determinism = "layout": gradients are summed in groups of micro-batches, and over groups by a tree
// (graph/sum_tree.h). A rank adds up the branches that lie in its block of groups; each rank then gets its
// part of everybody's branches and adds on, in the order of the tree and with no library's reduction.

#include <algorithm>

#include "graph/ops.h"
#include "graph/passes/draft.h"
#include "graph/sum_tree.h"

namespace ingot::graph {
namespace {

class TreeSum {
 public:
  TreeSum(Draft& draft, Graph& graph, const Bucket& bucket, Phase phase)
      : draft_(draft),
        graph_(graph),
        bucket_(bucket),
        phase_(phase),
        leaves_(draft.options.layout.determinism_groups),
        groups_(draft.own_groups()),
        members_(draft.options.layout.mesh.group_size(kDpMask)),
        part_(bucket.elements / members_) {
    const BucketBuffers& buffers = draft.bucket_buffers[static_cast<size_t>(bucket.id)];
    newest_ = add_by_name(graph, draft.persistent(buffers.gradient));
    for (const int buffer : buffers.branches)
      waiting_.push_back(add_by_name(graph, draft.persistent(buffer)));
    total_ = newest_;
  }

  // After each group: its sum joins the branches to its left that end there, or waits as one itself. The sum
  // of the last group stays where gradients accumulate, and so does what it joins.
  void add_up(std::span<const GradientRun> runs) {
    TreeStack stack(leaves_);
    const int first = draft_.options.layout.replica * groups_;
    for (int group = 0; group < groups_; ++group) {
      for (const GradientRun& run : runs) sum_leaf(run, group);
      const size_t below = stack.branches().size();
      const int joined = stack.push({first + group, first + group + 1});
      const bool last = group + 1 == groups_;
      if (!last && joined == 0) {
        append(graph_.nodes, Op::kCopy, {newest_}, waiting_[below], When::kGroup, group);
        continue;
      }
      ValueId right = newest_;
      for (size_t i = 1; i <= static_cast<size_t>(joined); ++i) {
        const ValueId left = waiting_[below - i], sum = last ? newest_ : left;
        append(graph_.nodes, Op::kAdd, {left, right}, sum, When::kGroup, group);
        right = sum;
      }
    }
    branches_ = stack.branches().size();
  }

  // The i-th branch of every rank that has one, in one exchange for each i: [ranks with one, part].
  void exchange() {
    std::vector<size_t> counts;
    for (int member = 0; member < members_; ++member)
      counts.push_back(branches_of(leaves_, {member * groups_, (member + 1) * groups_}).size());
    for (size_t i = 0; i < std::ranges::max(counts); ++i) {
      const bool sends = i < branches_;
      Node node = collective(Op::kAllToAll, draft_.data_axes());
      node.attributes.sent_rows.assign(static_cast<size_t>(members_), sends ? 1 : 0);
      for (const size_t count : counts) node.attributes.received_rows.push_back(i < count ? 1 : 0);
      Value rows = graph_.value(sends ? branch(i) : newest_);
      rows.logical = rows.stored = Shape{sends ? members_ : 0, part_};
      Value received;
      received.name = rows.name + ".received";
      received.dtype = rows.dtype;
      received.space = rows.space;
      received.logical = received.stored =
          Shape{std::ranges::count_if(counts, [&](size_t count) { return i < count; }), part_};
      node.inputs = {add_by_name(graph_, std::move(rows))};
      node.outputs = {graph_.add_value(std::move(received))};
      received_.push_back(node.outputs[0]);
      graph_.nodes.push_back(std::move(node));
    }
  }

  void add_on(std::vector<Node>& later) {
    const ValueId total = add_by_name(
        graph_, draft_.data_part(bucket_, draft_.bucket_buffers[static_cast<size_t>(bucket_.id)].gradient));
    std::vector<int64_t> taken(received_.size(), 0);
    std::vector<ValueId> sums;
    TreeStack stack(leaves_);
    for (int member = 0; member < members_; ++member) {
      const std::vector<TreeRun> runs = branches_of(leaves_, {member * groups_, (member + 1) * groups_});
      for (size_t i = 0; i < runs.size(); ++i) {
        sums.push_back(row(received_[i], taken[i]++));
        for (int joined = stack.push(runs[i]); joined > 0; --joined) {
          const ValueId right = sums.back();
          sums.pop_back();
          const bool whole = member + 1 == members_ && i + 1 == runs.size() && joined == 1;
          const ValueId left = sums.back();
          sums.back() = whole ? total : left;
          append(later, Op::kAdd, {left, right}, sums.back(), When::kLast, -1);
        }
      }
    }
    total_ = total;
  }

  // Each rank of the other axes has summed the whole tree by then, whatever dp is.
  void finish(AxisMask after, std::vector<Node>& later) {
    if (after != 0) {
      Node sum = collective(Op::kAllReduce, after);
      sum.inputs = sum.outputs = {total_};
      later.push_back(std::move(sum));
    }
    if (bucket_.shard_axes != 0 || total_ == newest_) return;
    Node gather = collective(Op::kAllGather, draft_.data_axes());
    gather.attributes.dim = 0;
    gather.inputs = {total_};
    gather.outputs = {newest_};
    later.push_back(std::move(gather));
  }

 private:
  Node collective(Op op, AxisMask group) const {
    Node node = draft_.collective(op, group, phase_, bucket_.layer);
    node.when = When::kLast;
    return node;
  }

  // A stretch that is partial over other axes than the rest: before its leaf joins others.
  void sum_leaf(const GradientRun& run, int group) {
    Value stretch = graph_.value(newest_);
    stretch.logical = stretch.stored = Shape{run.end - run.begin};
    stretch.buffer_offset = run.begin;
    Node node = collective(Op::kAllReduce, run.axes);
    node.when = When::kGroup;
    node.group = group;
    node.stream = Stream::kCompute;
    node.inputs = node.outputs = {add_by_name(graph_, std::move(stretch))};
    graph_.nodes.push_back(std::move(node));
  }

  ValueId branch(size_t i) const { return i + 1 == branches_ ? newest_ : waiting_[i]; }

  ValueId row(ValueId rows, int64_t index) {
    Value value = graph_.value(rows);
    value.base = rows;
    value.base_offset = index * part_;
    value.logical = value.stored = Shape{part_};
    return add_by_name(graph_, std::move(value));
  }

  void append(std::vector<Node>& nodes, Op op, std::vector<ValueId> inputs, ValueId output, When when,
              int group) {
    Node node;
    node.op = op;
    node.phase = phase_;
    node.when = when;
    node.group = group;
    node.layer = bucket_.layer;
    node.inputs = std::move(inputs);
    node.outputs = {output};
    nodes.push_back(std::move(node));
  }

  Draft& draft_;
  Graph& graph_;
  const Bucket& bucket_;
  const Phase phase_;
  const int leaves_, groups_, members_;
  const int64_t part_;            // elements of a bucket that a rank adds up
  ValueId newest_ = kNoValue;     // where gradients accumulate
  ValueId total_ = kNoValue;      // where the sum of the tree comes to lie
  std::vector<ValueId> waiting_;  // branches, from left to right
  size_t branches_ = 0;           // in the end
  std::vector<ValueId> received_;
};

}  // namespace

void sum_by_tree(Draft& draft, Graph& graph, const Bucket& bucket, Phase phase, const OtherSums& others,
                 std::vector<Node>& later) {
  TreeSum sum(draft, graph, bucket, phase);
  sum.add_up(others.runs);
  if (draft.data_axes() != 0) {
    sum.exchange();
    sum.add_on(later);
  }
  sum.finish(others.after, later);
}

ValueId own_leaf(Draft& draft, Graph& graph, int leaf) {
  Value own = draft.persistent(draft.parts);
  own.logical = own.stored = Shape{int64_t{draft.own_groups()} * kControlBlock};
  own.shard_group = draft.data_axes();
  Value row = own;
  row.base = add_by_name(graph, std::move(own));
  row.base_offset = int64_t{leaf} * kControlBlock;
  row.logical = row.stored = Shape{kControlBlock};
  row.shard_group = 0;
  return add_by_name(graph, std::move(row));
}

void keep_loss_by_group(Draft& draft, Graph& graph) {
  const auto sums = [&](const Node& node) {
    return std::ranges::find_if(node.outputs,
                                [&](ValueId id) { return graph.value(id).buffer == draft.sums; });
  };
  const auto last = std::find_if(graph.nodes.rbegin(), graph.nodes.rend(),
                                 [&](const Node& node) { return sums(node) != node.outputs.end(); });
  if (last == graph.nodes.rend()) return;
  const ValueId added = *sums(*last);
  std::vector<Node> nodes;
  for (int group = 0; group < draft.own_groups(); ++group) {
    Node node;
    node.phase = last->phase;
    node.layer = last->layer;
    node.when = When::kGroup;
    node.group = group;
    node.op = Op::kCopy;
    node.inputs = {added};
    node.outputs = {own_leaf(draft, graph, group)};
    nodes.push_back(node);
    node.op = Op::kZero;
    node.inputs = {};
    node.outputs = {added};
    nodes.push_back(std::move(node));
  }
  graph.nodes.insert(last.base(), nodes.begin(), nodes.end());
}

}  // namespace ingot::graph
