#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

// A parameter begins on a cache line in every data type of at least 4 bytes.
constexpr int64_t kParameterElements = 16;
constexpr AxisMask kDataMask = kDpMask | mask_of(Axis::kCp) | mask_of(Axis::kEp);

AxisMask axes_in_use(const Mesh& mesh) {
  unsigned mask = 0;
  for (int axis = 0; axis < kAxisCount; ++axis)
    if (mesh.size(static_cast<Axis>(axis)) > 1) mask |= mask_of(static_cast<Axis>(axis));
  return static_cast<AxisMask>(mask);
}

AxisMask replicated_axes(const Parameter& parameter, AxisMask among) {
  unsigned mask = 0;
  for (int axis = 0; axis < kAxisCount; ++axis)
    if (parameter.places[static_cast<size_t>(axis)].kind != Placement::kSharded)
      mask |= mask_of(static_cast<Axis>(axis));
  return static_cast<AxisMask>(mask & among);
}

class DataSharding {
 public:
  explicit DataSharding(Draft& draft)
      : draft_(draft), mesh_(draft.options.layout.mesh), used_(axes_in_use(mesh_)) {}

  void run() {
    make_buckets();
    make_buffers();
    for (size_t chunk = 0; chunk < draft_.chunks.size(); ++chunk) place_values(draft_.chunks[chunk]);
    Graph finish;
    finish.parameters = draft_.chunks.front().parameters;
    finish.layers = draft_.chunks.front().layers;
    for (Graph& chunk : draft_.chunks) hoist(chunk, finish);
    if (draft_.options.purpose == Purpose::kTrain)
      for (Graph& chunk : draft_.chunks) {
        mark_first_writers(chunk);
        add_reductions(chunk);
      }
    draft_.finish = static_cast<int>(draft_.chunks.size());
    draft_.chunks.push_back(std::move(finish));
  }

 private:
  // A function of parameters and layout alone: programs of every purpose find the same buckets.
  void make_buckets() {
    const std::vector<Parameter>& parameters = draft_.chunks.front().parameters;
    std::map<std::tuple<int, unsigned, bool, double, bool>, size_t> index;
    where_.resize(parameters.size());
    for (size_t p = 0; p < parameters.size(); ++p) {
      const Parameter& parameter = parameters[p];
      const AxisMask tp_replicas = replicated_axes(parameter, static_cast<AxisMask>(kTpMask & used_));
      const auto key = std::tuple(parameter.layer, unsigned{tp_replicas}, parameter.decay,
                                  parameter.learning_rate_factor, parameter.matrix_unit);
      const auto [found, added] = index.emplace(key, draft_.buckets.size());
      if (added) {
        Bucket bucket;
        bucket.id = static_cast<int>(found->second);
        bucket.layer = parameter.layer;
        bucket.decay = parameter.decay;
        bucket.learning_rate_factor = parameter.learning_rate_factor;
        bucket.reduce_axes = static_cast<AxisMask>(kDataMask & used_);
        bucket.replica_axes = static_cast<AxisMask>(bucket.reduce_axes | tp_replicas);
        bucket.norm_weight = 1.0 / mesh_.group_size(bucket.replica_axes);
        draft_.buckets.push_back(std::move(bucket));
      }
      Bucket& bucket = draft_.buckets[found->second];
      where_[p] = {found->second, bucket.elements};
      bucket.parameters.push_back(static_cast<int>(p));
      bucket.offsets.push_back(bucket.elements);
      bucket.elements += tensor::align_up(parameter.stored.elements(), kParameterElements);
      bucket.shard_elements = bucket.elements;
    }
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

  void make_buffers() {
    const bool trains = draft_.options.purpose == Purpose::kTrain;
    const DType dtype = draft_.options.precision == Precision::kF64 ? DType::kF64 : DType::kF32;
    const uint8_t updater = draft_.options.update_on_second_target ? 1 : 0;
    draft_.bucket_buffers.resize(draft_.buckets.size());
    for (const Bucket& bucket : draft_.buckets) {
      BucketBuffers& buffers = draft_.bucket_buffers[static_cast<size_t>(bucket.id)];
      buffers.parameter =
          add(fmt::format("param.{}", bucket.id), Space::kState, dtype, bucket.elements, bucket.id);
      if (!trains) continue;
      buffers.gradient =
          add(fmt::format("grad.{}", bucket.id), Space::kStep, dtype, bucket.elements, bucket.id);
      buffers.first_moment = add(fmt::format("exp_avg.{}", bucket.id), Space::kState, dtype, bucket.elements,
                                 bucket.id, updater);
      buffers.second_moment = add(fmt::format("exp_avg_sq.{}", bucket.id), Space::kState, dtype,
                                  bucket.elements, bucket.id, updater);
    }
    if (draft_.options.purpose == Purpose::kDecode) return;
    draft_.scalars = add("control.scalars", Space::kState, DType::kF64, kControlBlock, -1);
    draft_.sums = add("control.sums", Space::kStep, DType::kF64, kControlBlock, -1);
    draft_.step = add("control.step", Space::kInput, DType::kF64, kControlBlock, -1);
  }

  void place_parameter(Value& value) {
    const auto [bucket, offset] = where_[static_cast<size_t>(value.parameter)];
    const BucketBuffers& buffers = draft_.bucket_buffers[bucket];
    value.buffer = value.role == Role::kGradient ? buffers.gradient : buffers.parameter;
    value.buffer_offset = offset;
    INGOT_CHECK(value.dtype == draft_.buffers[static_cast<size_t>(value.buffer)].dtype,
                "{} is {}, its bucket {}", value.name, tensor::name_of(value.dtype),
                tensor::name_of(draft_.buffers[static_cast<size_t>(value.buffer)].dtype));
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
        place_parameter(value);
      if (value.role == Role::kData && made_by[i] < 0) place_data(value);
      if (value.role == Role::kState)
        place_whole(value, value.name == "control.sums" ? Space::kStep : Space::kState);
      if (draft_.options.purpose == Purpose::kDecode && value.name == "logits")
        place_whole(value, Space::kStep);
    }
  }

  // A node of parameters alone runs once after they change, not in every micro-batch.
  void hoist(Graph& graph, Graph& finish) {
    std::vector<Node> kept;
    kept.reserve(graph.nodes.size());
    for (Node& node : graph.nodes) {
      const bool invariant = !node.inputs.empty() && !info(node.op).collective &&
                             std::ranges::all_of(node.inputs, [&](ValueId id) {
                               return graph.value(id).role == Role::kParameter && graph.value(id).buffer >= 0;
                             });
      if (!invariant) {
        kept.push_back(std::move(node));
        continue;
      }
      for (const ValueId id : node.outputs) {
        Value& value = graph.value(id);
        value.role = Role::kParameter;
        value.parameter = graph.value(node.inputs[0]).parameter;
        const std::string& parameter = graph.parameters[static_cast<size_t>(value.parameter)].name;
        const std::string scaled =
            node.attributes.scale != 0 ? fmt::format(".x{}", node.attributes.scale) : "";
        value.buffer = add(
            fmt::format("{}.{}.{}{}", info(node.op).name, parameter, tensor::name_of(value.dtype), scaled),
            Space::kDerived, value.dtype, value.stored.elements(), -1);
        value.buffer_offset = 0;
      }
      for (std::vector<ValueId>* operands : {&node.inputs, &node.outputs})
        for (ValueId& id : *operands) id = finish.add_value(graph.value(id));
      node.phase = Phase::kBegin;
      finish.nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(kept);
  }

  // The first writer of an accumulator overwrites it in the first micro-batch; where a node is the first
  // writer of one output and a later writer of another, the first is zeroed instead.
  void mark_first_writers(Graph& graph) {
    std::vector<bool> written(graph.values.size(), false);
    std::vector<Node> nodes;
    nodes.reserve(graph.nodes.size());
    for (Node& node : graph.nodes) {
      std::vector<ValueId> fresh;
      size_t accumulators = 0;
      for (const ValueId id : node.outputs) {
        if (graph.value(id).role != Role::kGradient) continue;
        ++accumulators;
        if (!written[static_cast<size_t>(id)]) fresh.push_back(id);
        written[static_cast<size_t>(id)] = true;
      }
      node.zero_first = !fresh.empty() && fresh.size() == accumulators;
      if (!fresh.empty() && !node.zero_first) {
        for (const ValueId id : fresh) {
          Node zero;
          zero.op = Op::kZero;
          zero.phase = node.phase;
          zero.when = When::kFirst;
          zero.layer = node.layer;
          zero.outputs = {id};
          nodes.push_back(std::move(zero));
        }
      }
      nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(nodes);
  }

  struct Run {
    int64_t begin = 0, end = 0;
    AxisMask axes = 0;
  };

  // Stretches of a bucket whose gradients are summed over the same axes.
  std::vector<Run> runs_of(const Graph& graph, const Bucket& bucket) const {
    std::vector<Run> runs;
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      const Parameter& parameter = graph.parameters[static_cast<size_t>(bucket.parameters[i])];
      const auto axes = static_cast<AxisMask>((bucket.reduce_axes | parameter.partial) & used_);
      const int64_t end = i + 1 < bucket.offsets.size() ? bucket.offsets[i + 1] : bucket.elements;
      if (!runs.empty() && runs.back().axes == axes) {
        runs.back().end = end;
      } else {
        runs.push_back({bucket.offsets[i], end, axes});
      }
    }
    return runs;
  }

  void add_reductions(Graph& graph) {
    std::vector<int> last_writer(draft_.buckets.size(), -1);
    for (size_t k = 0; k < graph.nodes.size(); ++k)
      for (const ValueId id : graph.nodes[k].outputs)
        if (const Value& value = graph.value(id); value.role == Role::kGradient)
          last_writer[where_[static_cast<size_t>(value.parameter)].first] = static_cast<int>(k);
    std::vector<std::vector<Node>> after(graph.nodes.size());
    for (const Bucket& bucket : draft_.buckets) {
      const int writer = last_writer[static_cast<size_t>(bucket.id)];
      if (writer < 0) continue;
      for (const Run& run : runs_of(graph, bucket)) {
        if (run.axes == 0) continue;
        after[static_cast<size_t>(writer)].push_back(
            reduction(graph, bucket, run, graph.nodes[static_cast<size_t>(writer)].phase));
      }
    }
    std::vector<Node> nodes;
    nodes.reserve(graph.nodes.size());
    for (size_t k = 0; k < after.size(); ++k) {
      nodes.push_back(std::move(graph.nodes[k]));
      std::ranges::move(after[k], std::back_inserter(nodes));
    }
    graph.nodes = std::move(nodes);
  }

  Node reduction(Graph& graph, const Bucket& bucket, const Run& run, Phase phase) {
    Value value;
    const int buffer = draft_.bucket_buffers[static_cast<size_t>(bucket.id)].gradient;
    value.name = draft_.buffers[static_cast<size_t>(buffer)].name;
    value.logical = value.stored = Shape{run.end - run.begin};
    value.dtype = draft_.buffers[static_cast<size_t>(buffer)].dtype;
    value.role = Role::kState;
    value.buffer = buffer;
    value.buffer_offset = run.begin;
    value.space = draft_.options.targets[0]->space;
    const ValueId id = graph.add_value(std::move(value));
    Node node;
    node.op = Op::kAllReduce;
    node.phase = phase;
    node.when = When::kLast;
    node.stream = Stream::kDp;
    node.layer = bucket.layer;
    node.inputs = node.outputs = {id};
    node.attributes.group = run.axes;
    node.attributes.group_size = mesh_.group_size(run.axes);
    return node;
  }

  Draft& draft_;
  const Mesh& mesh_;
  const AxisMask used_;
  std::vector<std::pair<size_t, int64_t>> where_;  // of each parameter: bucket, elements from its start
};

}  // namespace

Result<void> shard_data(Draft& draft) {
  const int stage = draft.options.layout.zero_stage;
  if (stage != 0) {
    return invalid(
        fmt::format("parallel.zero_stage {} comes with the distributed part; use zero_stage 0", stage));
  }
  DataSharding(draft).run();
  return {};
}

}  // namespace ingot::graph
