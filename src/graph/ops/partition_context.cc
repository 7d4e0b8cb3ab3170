#include "graph/ops/partition_context.h"

#include <fmt/format.h>

#include "base/check.h"
#include "graph/ops/rules.h"

namespace ingot::graph {
namespace {

bool has_axis(AxisMask axes, int axis) { return (axes & mask_of(static_cast<Axis>(axis))) != 0; }

}  // namespace

PartitionContext::PartitionContext(const Graph& from, Graph& to, const Mesh& mesh, const SequenceCut& cut,
                                   bool gradient)
    : from_(from),
      to_(to),
      mesh_(mesh),
      cut_(cut),
      gradient_(gradient),
      map_(from.values.size(), kNoValue),
      uses_(from.parameters.size(), Use::kNone) {}

AxisMask PartitionContext::real_axes(AxisMask axes) const {
  AxisMask real = 0;
  for (int axis = 0; axis < kAxisCount; ++axis)
    if (has_axis(axes, axis) && mesh_.sizes[static_cast<size_t>(axis)] > 1)
      real |= mask_of(static_cast<Axis>(axis));
  return real;
}

ValueId PartitionContext::counterpart(ValueId original) {
  ValueId& known = map_[static_cast<size_t>(original)];
  if (known != kNoValue) return known;
  Value value = from_.value(original);
  INGOT_CHECK(value.role != Role::kActivation, "{} is read before it is written", value.name);
  if (value.role == Role::kParameter) {
    known = to_.parameter_value(value.parameter);
    to_.value(known).dtype = value.dtype;
    return known;
  }
  const bool cut = cut_.over_cp && value.role == Role::kData && value.stored.rank() > 1;
  if (cut) value.stored.set(1, value.stored[1] / mesh_.group_size(kCpMask));
  known = to_.add_value(std::move(value));
  if (cut) set_place(known, kCpMask, {Placement::kSharded, 1});
  return known;
}

std::vector<ValueId> PartitionContext::inputs_of(const Node& node) {
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(counterpart(input));
  return inputs;
}

Place PartitionContext::place(ValueId value, AxisMask axes) const {
  Place common;
  bool first = true;
  const AxisMask real = real_axes(axes);
  for (int axis = 0; axis < kAxisCount; ++axis) {
    if (!has_axis(real, axis)) continue;
    const Place place = to_.value(value).places[static_cast<size_t>(axis)];
    INGOT_CHECK(first || place == common, "{} lies differently on the axes of {}", to_.value(value).name,
                group_name(axes));
    common = place;
    first = false;
  }
  return common;
}

void PartitionContext::set_place(ValueId value, AxisMask axes, Place place) {
  const AxisMask real = real_axes(axes);
  for (int axis = 0; axis < kAxisCount; ++axis)
    if (has_axis(real, axis)) to_.value(value).places[static_cast<size_t>(axis)] = place;
}

// The table of program.md section 2. Data and graphs without gradient make no difference between R and B.
ValueId PartitionContext::convert(ValueId value, Place wanted, AxisMask axes) {
  const AxisMask real = real_axes(axes);
  if (real == 0) return value;
  const Place place = this->place(value, real);
  if (place == wanted) return value;
  const bool whole = place.kind == Placement::kReplicated || place.kind == Placement::kBroadcast;
  const bool wants_whole = wanted.kind == Placement::kReplicated || wanted.kind == Placement::kBroadcast;
  const bool has_gradient = gradient_ && to_.value(value).role == Role::kActivation;
  if (whole && wants_whole && !has_gradient) return value;
  const auto key = std::tuple(value, real, wanted.kind, int{wanted.dim});
  if (const auto found = converted_.find(key); found != converted_.end()) return found->second;
  Attributes attributes;
  attributes.group = real;
  attributes.group_size = mesh_.group_size(real);
  attributes.dim = wanted.kind == Placement::kSharded ? wanted.dim : place.dim;
  Op op = Op::kCopy;
  if (place.kind == Placement::kReplicated && wanted.kind == Placement::kBroadcast) op = Op::kBroadcastGrad;
  if (place.kind == Placement::kReplicated && wanted.kind == Placement::kSharded) op = Op::kSlice;
  if (place.kind == Placement::kSharded && wants_whole) op = Op::kAllGather;
  if (place.kind == Placement::kPartial && wanted.kind == Placement::kReplicated) op = Op::kAllReduce;
  if (place.kind == Placement::kPartial && wanted.kind == Placement::kSharded) op = Op::kReduceScatter;
  INGOT_CHECK(op != Op::kCopy, "no conversion of {} from placement {} to {}", to_.value(value).name,
              static_cast<int>(place.kind), static_cast<int>(wanted.kind));
  attributes.gradient_partial = op == Op::kAllGather && wanted.kind == Placement::kBroadcast && has_gradient;
  const ValueId result = insert(op, {value}, attributes, layer_);
  set_place(result, real, wanted);
  return converted_[key] = result;
}

ValueId PartitionContext::to_residual(ValueId value) {
  return convert(value, cut_.over_tp ? Place{Placement::kSharded, 1} : Place{Placement::kReplicated, -1});
}

void PartitionContext::use(ValueId parameter_value, bool split) {
  const int index = to_.value(parameter_value).parameter;
  Use& known = uses_[static_cast<size_t>(index)];
  const Use now = split ? Use::kSplit : Use::kWhole;
  if (known != Use::kNone && known != now)
    conflicts_.push_back(to_.parameters[static_cast<size_t>(index)].name);
  known = now;
  if (!split) return;
  const Place broadcast{Placement::kBroadcast, -1};
  for (const ValueId value : {parameter_value, to_.parameter_value(index)})
    set_place(value, kTpMask, broadcast);
  to_.parameters[static_cast<size_t>(index)].places = to_.value(parameter_value).places;
}

std::vector<ValueId> PartitionContext::emit(const Node& node, std::vector<ValueId> inputs,
                                            const Attributes& attributes) {
  Node copy{.op = node.op, .layer = node.layer, .inputs = std::move(inputs)};
  copy.attributes = attributes;
  const auto shape = info(node.op).shape;
  std::vector<Value> made;
  if (shape != nullptr) shape(to_, copy, made);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& original = from_.value(node.outputs[i]);
    if (original.role == Role::kState) {  // in place: the input that stands for it
      copy.outputs.push_back(counterpart(node.outputs[i]));
      continue;
    }
    INGOT_CHECK(i < made.size(), "{} has no rule for output {}", info(node.op).name, i);
    made[i].name = original.name;
    made[i].dtype = original.dtype;
    made[i].logical = original.logical;
    map(node.outputs[i], to_.add_value(std::move(made[i])));
    copy.outputs.push_back(mapped(node.outputs[i]));
  }
  return to_.add_node(std::move(copy));
}

ValueId PartitionContext::insert(Op op, std::vector<ValueId> inputs, const Attributes& attributes,
                                 int layer) {
  Node node{.op = op, .layer = layer, .inputs = std::move(inputs)};
  node.attributes = attributes;
  return to_.add_node(std::move(node))[0];
}

}  // namespace ingot::graph
