// Which parameters lie together, in which persistent buffers, and where every value that outlives a step
// lies.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/ops.h"
#include "graph/ownership.h"
#include "graph/passes/draft.h"
#include "graph/sum_tree.h"

namespace ingot::graph {
namespace {

// A parameter begins on a cache line in every data type of at least 4 bytes; a shard too.
constexpr int64_t kParameterElements = 16;
constexpr AxisMask kDataMask = kDpMask | mask_of(Axis::kCp) | mask_of(Axis::kEp);

AxisMask replicated_axes(const Parameter& parameter, AxisMask among) {
  unsigned mask = 0;
  for (int axis = 0; axis < kAxisCount; ++axis)
    if (parameter.places[static_cast<size_t>(axis)].kind != Placement::kSharded)
      mask |= mask_of(static_cast<Axis>(axis));
  return static_cast<AxisMask>(mask & among);
}

class Bucketing {
 public:
  explicit Bucketing(Draft& draft)
      : draft_(draft),
        mesh_(draft.options.layout.mesh),
        used_(axes_in_use(mesh_)),
        master_(draft.options.precision == Precision::kF64 ? DType::kF64 : DType::kF32) {}

  void run() {
    make_buckets();
    make_buffers();
    for (Graph& chunk : draft_.chunks) place_values(chunk);
  }

 private:
  // A function of parameters and layout alone: programs of every purpose find the same buckets.
  void make_buckets() {
    const std::vector<Parameter>& parameters = draft_.chunks.front().parameters;
    const int64_t most = draft_.options.layout.bucket_bytes / tensor::size_of(master_);
    std::map<std::tuple<int, unsigned, bool, double, bool, bool>, size_t> open;
    draft_.places.resize(parameters.size());
    for (size_t p = 0; p < parameters.size(); ++p) {
      const Parameter& parameter = parameters[p];
      const int64_t elements = tensor::align_up(parameter.stored.elements(), kParameterElements);
      const AxisMask tp_replicas = replicated_axes(parameter, static_cast<AxisMask>(kTpMask & used_));
      const auto key = std::tuple(parameter.layer, unsigned{tp_replicas}, parameter.decay,
                                  parameter.learning_rate_factor, parameter.matrix_unit, shared(parameter));
      const auto [found, added] = open.emplace(key, draft_.buckets.size());
      if (!added && draft_.buckets[found->second].elements + elements > most)
        found->second = draft_.buckets.size();
      if (found->second == draft_.buckets.size())
        draft_.buckets.push_back(make_bucket(parameter, tp_replicas));
      Bucket& bucket = draft_.buckets[found->second];
      draft_.places[p] = {bucket.id, bucket.elements};
      bucket.parameters.push_back(static_cast<int>(p));
      bucket.offsets.push_back(bucket.elements);
      bucket.elements += elements;
    }
    for (Bucket& bucket : draft_.buckets) {
      const int parts = mesh_.group_size(bucket.shard_axes);
      // Leaves of the tree are pieces of every bucket, the same for all numbers of ranks.
      const int64_t leaves = std::max(draft_.options.layout.determinism_groups, parts);
      bucket.elements =
          leaves * tensor::align_up((bucket.elements + leaves - 1) / leaves, kParameterElements);
      bucket.shard_elements = bucket.elements / parts;
    }
  }

  // By the first and the last stage, where it has a bucket of its own, the same on both.
  bool shared(const Parameter& parameter) const { return parameter.tied && mesh_.size(Axis::kPp) > 1; }

  Bucket make_bucket(const Parameter& parameter, AxisMask tp_replicas) const {
    Bucket bucket;
    bucket.id = static_cast<int>(draft_.buckets.size());
    bucket.layer = parameter.layer;
    bucket.decay = parameter.decay;
    bucket.learning_rate_factor = parameter.learning_rate_factor;
    bucket.reduce_axes = static_cast<AxisMask>(kDataMask & used_);
    if (draft_.options.layout.zero_stage > 0)
      bucket.shard_axes =
          draft_.sums_by_tree() ? draft_.data_axes() : static_cast<AxisMask>(bucket.reduce_axes & kZeroMask);
    const AxisMask holders = shared(parameter) ? kTiedMask : AxisMask{0};
    bucket.replica_axes =
        static_cast<AxisMask>((bucket.reduce_axes & ~unsigned{bucket.shard_axes}) | tp_replicas | holders);
    // By the tree each data parallel rank sums the squares of its part alone.
    const unsigned counted =
        draft_.sums_by_tree() ? bucket.replica_axes & ~unsigned{kDpMask} : unsigned{bucket.replica_axes};
    bucket.norm_weight = 1.0 / mesh_.group_size(static_cast<AxisMask>(counted));
    return bucket;
  }

  int add(std::string name, Space space, DType dtype, int64_t elements, int bucket, uint8_t target = 0) {
    BufferPlan buffer;
    buffer.name = std::move(name);
    buffer.space = space;
    buffer.dtype = dtype;
    buffer.elements = elements;
    buffer.bucket = bucket;
    buffer.memory = draft_.options.targets[target]->space;
    return draft_.add_buffer(std::move(buffer));
  }

  int add_of(const Bucket& bucket, std::string_view kind, Space space, uint8_t target = 0) {
    const bool cut = cut_by_zero(kind, draft_.options.layout.zero_stage);
    return add(fmt::format("{}.{}", kind, bucket.id), space, master_,
               cut ? bucket.shard_elements : bucket.elements, bucket.id, target);
  }

  void make_buffers() {
    const uint8_t updater = draft_.options.update_on_second_target ? 1 : 0;
    const Layout& layout = draft_.options.layout;
    int waiting = 0;
    if (draft_.sums_by_tree()) {
      const int first = layout.replica * draft_.own_groups();
      waiting = waiting_branches(layout.determinism_groups, {first, first + draft_.own_groups()});
    }
    draft_.bucket_buffers.resize(draft_.buckets.size());
    for (const Bucket& bucket : draft_.buckets) {
      BucketBuffers& buffers = draft_.bucket_buffers[static_cast<size_t>(bucket.id)];
      buffers.parameter = add_of(bucket, "param", Space::kState);
      if (draft_.options.purpose != Purpose::kTrain) continue;
      buffers.gradient = add_of(bucket, "grad", Space::kStep);
      for (int i = 0; i < waiting; ++i)
        buffers.branches.push_back(add(fmt::format("grad.{}.branch.{}", bucket.id, i), Space::kStep, master_,
                                       bucket.elements, bucket.id));
      buffers.first_moment = add_of(bucket, "exp_avg", Space::kState, updater);
      buffers.second_moment = add_of(bucket, "exp_avg_sq", Space::kState, updater);
    }
    if (draft_.options.purpose == Purpose::kDecode) return;
    draft_.scalars = add("control.scalars", Space::kState, DType::kF64, kControlBlock, -1);
    draft_.sums = add("control.sums", Space::kStep, DType::kF64, kControlBlock, -1);
    draft_.step = add("control.step", Space::kInput, DType::kF64, kControlBlock, -1);
    if (draft_.sums_by_tree() && draft_.options.purpose == Purpose::kTrain)
      draft_.parts = add("control.parts", Space::kStep, DType::kF64,
                         int64_t{layout.determinism_groups} * kControlBlock, -1);
  }

  // Where ZeRO cuts the buffer, `gather` or `reduce` make a whole one in scratch.
  void place_in_bucket(Value& value) {
    const BucketPlace place = draft_.places[static_cast<size_t>(value.parameter)];
    const BucketBuffers& buffers = draft_.bucket_buffers[static_cast<size_t>(place.bucket)];
    const bool gradient = value.role == Role::kGradient;
    if (draft_.cuts(draft_.buckets[static_cast<size_t>(place.bucket)], gradient ? "grad" : "param")) return;
    value.buffer = gradient ? buffers.gradient : buffers.parameter;
    value.buffer_offset = place.offset;
    INGOT_CHECK(value.dtype == master_, "{} is {}, its bucket {}", value.name, tensor::name_of(value.dtype),
                tensor::name_of(master_));
  }

  void place_data(Value& value) {
    const int64_t elements = value.stored.elements();
    const int buffer =
        add(value.name, Space::kInput, value.dtype, elements * draft_.options.layout.micro_batches, -1);
    draft_.buffers[static_cast<size_t>(buffer)].micro_batch_elements = elements;
    draft_.buffers[static_cast<size_t>(buffer)].shape = value.stored;
    value.buffer = buffer;
  }

  void place_whole(Value& value, Space space) {
    value.buffer = add(value.name, space, value.dtype, value.stored.elements(), -1);
    draft_.buffers[static_cast<size_t>(value.buffer)].shape = value.stored;
  }

  void place_values(Graph& graph) {
    const std::vector<int> made_by = producers(graph);
    std::vector<bool> touched(graph.values.size(), false);
    for (const Node& node : graph.nodes)
      for (const std::vector<ValueId>* operands : {&node.inputs, &node.outputs})
        for (const ValueId id : *operands) touched[static_cast<size_t>(id)] = true;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      Value& value = graph.values[i];
      value.space = draft_.options.targets[0]->space;
      if (!touched[i]) continue;
      if (value.role == Role::kGradient || (value.role == Role::kParameter && made_by[i] < 0))
        place_in_bucket(value);
      if (value.role == Role::kData && made_by[i] < 0) place_data(value);
      if (value.role == Role::kState)
        place_whole(value, value.name == "control.sums" ? Space::kStep : Space::kState);
      if (draft_.options.purpose == Purpose::kDecode && value.name == "logits")
        place_whole(value, Space::kStep);
    }
  }

  Draft& draft_;
  const Mesh& mesh_;
  const AxisMask used_;
  const DType master_;
};

}  // namespace

void make_buckets(Draft& draft) { Bucketing(draft).run(); }

}  // namespace ingot::graph
