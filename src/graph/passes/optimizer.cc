#include <fmt/format.h>

#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

class Optimizer {
 public:
  explicit Optimizer(Draft& draft) : draft_(draft), graph_(draft.finish_graph()) {}

  void run() {
    const bool trains = draft_.options.purpose == Purpose::kTrain;
    sums_ = add_by_name(graph_, draft_.persistent(draft_.sums));
    scalars_ = add_by_name(graph_, draft_.persistent(draft_.scalars));
    step_ = add_by_name(graph_, draft_.persistent(draft_.step, Role::kData));
    if (trains)
      for (const Bucket& bucket : draft_.buckets) add_norm(bucket);
    if (draft_.options.layout.mesh.world() > 1) add_over(kWorldMask, sums_);
    Node control = node(Op::kControl, -1, {sums_, scalars_, step_}, {sums_, scalars_});
    if (draft_.parts >= 0) {
      // Over data parallel ranks all but one add zeros: exact in any order. The others are as many on every
      // layout that must give the same bits.
      const ValueId parts = add_by_name(graph_, draft_.persistent(draft_.parts));
      const auto used = unsigned{axes_in_use(draft_.options.layout.mesh)};
      add_over(static_cast<AxisMask>(used & ~unsigned{kDpMask}), parts);
      add_over(draft_.data_axes(), parts);
      control.inputs.push_back(parts);
      control.outputs.push_back(parts);
    }
    control.attributes.clip = trains ? draft_.options.optimizer.clip : 0;
    control.attributes.update = trains;
    control.attributes.scale = draft_.gradient_seed == 1 ? 0 : draft_.gradient_seed;
    graph_.nodes.push_back(std::move(control));
    if (!trains) return;
    if (draft_.options.update_on_second_target) {
      update_elsewhere();
    } else {
      for (const Bucket& bucket : draft_.buckets) {
        const ValueId updated = parameter(bucket);
        update(bucket, gradients_[index(bucket)], updated, 0);
        share(bucket, updated);
      }
    }
  }

 private:
  static size_t index(const Bucket& bucket) { return static_cast<size_t>(bucket.id); }
  const BucketBuffers& buffers(const Bucket& bucket) const { return draft_.bucket_buffers[index(bucket)]; }

  // What this rank updates of one of the bucket's buffers.
  ValueId own(const Bucket& bucket, int buffer) { return add_by_name(graph_, draft_.shard(bucket, buffer)); }

  static Node node(Op op, int layer, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    Node result;
    result.op = op;
    result.phase = Phase::kFinish;
    result.layer = layer;
    result.inputs = std::move(inputs);
    result.outputs = std::move(outputs);
    return result;
  }

  void add_over(AxisMask group, ValueId sums, int layer = -1) {
    if (group == 0) return;
    Node reduce = node(Op::kAllReduce, layer, {sums}, {sums});
    reduce.attributes.group = group;
    reduce.attributes.group_size = draft_.options.layout.mesh.group_size(group);
    graph_.nodes.push_back(std::move(reduce));
  }

  // By leaf of the tree: the pieces of the bucket that lie in this rank's part.
  void add_norm_by_leaf(const Bucket& bucket) {
    const Value part = draft_.data_part(bucket, buffers(bucket).gradient);
    const ValueId whole = add_by_name(graph_, part);
    for (int leaf = 0; leaf < draft_.own_groups(); ++leaf) {
      Value piece = part;
      piece.base = whole;
      piece.shard_group = 0;
      piece.logical = piece.stored = Shape{part.stored.elements() / draft_.own_groups()};
      piece.base_offset = leaf * piece.stored.elements();
      Node squares = node(Op::kSumSquares, bucket.layer, {add_by_name(graph_, std::move(piece))},
                          {own_leaf(draft_, graph_, leaf)});
      squares.attributes.weight = bucket.norm_weight;
      graph_.nodes.push_back(std::move(squares));
    }
  }

  void add_norm(const Bucket& bucket) {
    gradients_.push_back(own(bucket, buffers(bucket).gradient));
    if ((bucket.replica_axes & kTiedMask) != 0) add_over(kTiedMask, gradients_.back(), bucket.layer);
    if (draft_.sums_by_tree()) return add_norm_by_leaf(bucket);
    Node squares = node(Op::kSumSquares, bucket.layer, {gradients_.back()}, {sums_});
    squares.attributes.weight = bucket.norm_weight;
    graph_.nodes.push_back(std::move(squares));
  }

  ValueId parameter(const Bucket& bucket) { return own(bucket, buffers(bucket).parameter); }

  void update(const Bucket& bucket, ValueId gradient, ValueId parameter, uint8_t target) {
    const ValueId first = own(bucket, buffers(bucket).first_moment);
    const ValueId second = own(bucket, buffers(bucket).second_moment);
    Node adamw = node(Op::kAdamW, bucket.layer, {gradient, scalars_, step_, parameter, first, second},
                      {parameter, first, second});
    const OptimizerOptions& options = draft_.options.optimizer;
    adamw.attributes.beta1 = options.beta1;
    adamw.attributes.beta2 = options.beta2;
    adamw.attributes.epsilon = options.epsilon;
    adamw.attributes.weight_decay = bucket.decay ? options.weight_decay : 0;
    adamw.attributes.learning_rate_factor = bucket.learning_rate_factor;
    adamw.target = target;
    graph_.nodes.push_back(std::move(adamw));
  }

  // Where all ranks hold the whole bucket and each updated its shard: beside the update of the next.
  void share(const Bucket& bucket, ValueId updated) {
    if (graph_.value(updated).shard_group == 0) return;
    Node gather = draft_.collective(Op::kAllGather, bucket.shard_axes, Phase::kFinish, bucket.layer);
    gather.attributes.dim = 0;
    gather.inputs = {updated};
    gather.outputs = {add_by_name(graph_, draft_.persistent(buffers(bucket).parameter))};
    graph_.nodes.push_back(std::move(gather));
  }

  // A copy of `from` in the other target's staging memory.
  ValueId copy_down(ValueId from, int layer) {
    Value value = graph_.value(from);
    value.name += ".staged";
    value.role = Role::kActivation;
    value.buffer = -1;
    value.buffer_offset = 0;
    value.shard_group = 0;
    value.space = draft_.options.targets[1]->space;
    const ValueId staged = graph_.add_value(std::move(value));
    Node copy = node(Op::kCopy, layer, {from}, {staged});
    copy.stream = Stream::kTransfer;
    graph_.nodes.push_back(std::move(copy));
    return staged;
  }

  // Bucket i + 1 comes down while bucket i is updated; two staging slots fall out of the lifetimes.
  void update_elsewhere() {
    struct Staged {
      ValueId gradient, parameter, home;
    };
    const auto down = [&](const Bucket& bucket) {
      const ValueId home = parameter(bucket);
      const ValueId gradient = copy_down(gradients_[index(bucket)], bucket.layer);
      return Staged{gradient, copy_down(home, bucket.layer), home};
    };
    scalars_ = copy_down(scalars_, -1);
    step_ = copy_down(step_, -1);
    if (draft_.buckets.empty()) return;
    Staged next = down(draft_.buckets.front());
    for (size_t b = 0; b < draft_.buckets.size(); ++b) {
      const Staged now = next;
      if (b + 1 < draft_.buckets.size()) next = down(draft_.buckets[b + 1]);
      update(draft_.buckets[b], now.gradient, now.parameter, 1);
      Node copy = node(Op::kCopy, draft_.buckets[b].layer, {now.parameter}, {now.home});
      copy.stream = Stream::kTransfer;
      graph_.nodes.push_back(std::move(copy));
      share(draft_.buckets[b], now.home);
    }
  }

  Draft& draft_;
  Graph& graph_;
  ValueId sums_ = kNoValue, scalars_ = kNoValue, step_ = kNoValue;
  std::vector<ValueId> gradients_;
};

}  // namespace

void add_optimizer(Draft& draft) {
  if (draft.options.purpose != Purpose::kDecode) Optimizer(draft).run();
}

}  // namespace ingot::graph
