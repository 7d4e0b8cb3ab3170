#include "graph/passes/draft.h"

#include "graph/ownership.h"

namespace ingot::graph {

int Draft::find_buffer(const std::string& name) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].name == name) return static_cast<int>(i);
  return -1;
}

int Draft::add_buffer(BufferPlan buffer) {
  if (const int found = find_buffer(buffer.name); found >= 0) return found;
  if (buffer.shape.rank() == 0) buffer.shape = Shape{buffer.elements};
  buffers.push_back(std::move(buffer));
  return static_cast<int>(buffers.size()) - 1;
}

bool Draft::cuts(const Bucket& bucket, std::string_view kind) const {
  return bucket.shard_axes != 0 && cut_by_zero(kind, options.layout.zero_stage);
}

Value Draft::persistent(int buffer, Role role) const {
  const BufferPlan& plan = buffers[static_cast<size_t>(buffer)];
  Value value;
  value.name = plan.name;
  value.logical = value.stored = Shape{plan.elements};
  value.dtype = plan.dtype;
  value.role = role;
  value.buffer = buffer;
  value.space = plan.memory;
  return value;
}

Value Draft::shard(const Bucket& bucket, int buffer) const {
  Value value = persistent(buffer);
  if (value.stored.elements() == bucket.shard_elements) return value;
  value.logical = value.stored = Shape{bucket.shard_elements};
  value.name += ".shard";
  value.shard_group = bucket.shard_axes;
  return value;
}

AxisMask Draft::data_axes() const {
  return static_cast<AxisMask>(axes_in_use(options.layout.mesh) & kDpMask);
}

Value Draft::data_part(const Bucket& bucket, int buffer) const {
  Value value = persistent(buffer);
  const int members = options.layout.mesh.group_size(data_axes());
  if (members == 1) return value;
  value.name += ".shard";
  value.logical = value.stored = Shape{bucket.elements / members};
  value.shard_group = data_axes();
  return value;
}

Node Draft::collective(Op op, AxisMask group, Phase phase, int layer) const {
  Node node;
  node.op = op;
  node.phase = phase;
  node.stream = Stream::kDp;
  node.layer = layer;
  node.attributes.group = group;
  node.attributes.group_size = options.layout.mesh.group_size(group);
  return node;
}

ValueId add_by_name(Graph& graph, Value value) {
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size()) - 1;
}

AxisMask axes_in_use(const Mesh& mesh) {
  unsigned mask = 0;
  for (int axis = 0; axis < kAxisCount; ++axis)
    if (mesh.size(static_cast<Axis>(axis)) > 1) mask |= mask_of(static_cast<Axis>(axis));
  return static_cast<AxisMask>(mask);
}

int64_t reach_of(const Mesh& mesh, const Graph& graph, ValueId value) {
  int64_t bytes = graph.value(value).bytes();
  for (ValueId id = value; id != kNoValue; id = graph.value(id).base)
    bytes += graph.value(id).bytes() * (mesh.group_size(graph.value(id).shard_group) - 1);
  return bytes;
}

Root root_of(const Graph& graph, ValueId value) {
  Root root{value, 0};
  while (graph.value(root.value).base != kNoValue) {
    const Value& view = graph.value(root.value);
    root.offset += view.base_offset * tensor::size_of(view.dtype);
    root.value = view.base;
  }
  return root;
}

}  // namespace ingot::graph
