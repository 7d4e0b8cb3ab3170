#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "graph/ops.h"

namespace ingot::graph {
namespace {

std::string_view activation_name(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kNone:
      return "identity";
    case ActivationKind::kGeluTanh:
      return "gelu_tanh";
    case ActivationKind::kGeluErf:
      return "gelu_erf";
    case ActivationKind::kSilu:
      return "silu";
    case ActivationKind::kSwiGlu:
      return "swiglu";
  }
  return "";
}

bool is_gather_like(Op op) {
  return op == Op::kAllReduce || op == Op::kAllGather || op == Op::kReduceScatter || op == Op::kSlice ||
         op == Op::kBroadcastGrad || op == Op::kCast || op == Op::kCopy;
}

// "h.3.attn.q" for what a weight makes, "h.3.add" for what none does, "h.3.attn.o.all_reduce" for a
// conversion.
std::string output_name(const Graph& graph, const Node& node) {
  if (is_gather_like(node.op) && !node.inputs.empty()) {
    const std::string& name = graph.value(node.inputs[0]).name;
    return fmt::format("{}.{}", name, info(node.op).name);
  }
  for (const ValueId input : node.inputs) {
    const Value& value = graph.value(input);
    if (value.role != Role::kParameter) continue;
    const std::string& name = graph.parameters[static_cast<size_t>(value.parameter)].name;
    const size_t dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(0, dot);
  }
  const std::string_view word =
      node.op == Op::kActivation ? activation_name(node.attributes.activation) : info(node.op).name;
  if (node.layer < 0 || node.layer >= graph.layers) return std::string(word);
  return fmt::format("h.{}.{}", node.layer, word);
}

}  // namespace

ValueId Graph::add_value(Value value) {
  if (value.name.empty()) value.name = "value";
  const std::string stem = value.name;
  for (int count = ++uses_[stem]; count > 1; count = ++uses_[stem]) {
    value.name = fmt::format("{}.{}", stem, count);
    if (uses_.emplace(value.name, 1).second) break;
  }
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

std::vector<ValueId> Graph::add_node(Node node) {
  for (const ValueId input : node.inputs)
    INGOT_CHECK(input >= 0 && input < static_cast<ValueId>(values.size()), "{} reads value {} of {}",
                info(node.op).name, input, values.size());
  const auto shape = info(node.op).shape;
  if (node.outputs.empty() && shape != nullptr) {
    std::vector<Value> made;
    shape(*this, node, made);
    const std::string stem = output_name(*this, node);
    for (Value& value : made) {
      value.name = value.name.empty() ? stem : fmt::format("{}.{}", stem, value.name);
      node.outputs.push_back(add_value(std::move(value)));
    }
  }
  INGOT_CHECK(!node.outputs.empty() || node.op == Op::kSend, "{} needs its outputs to be given",
              info(node.op).name);
  nodes.push_back(std::move(node));
  return nodes.back().outputs;
}

ValueId Graph::parameter_value(int parameter) {
  const auto index = static_cast<size_t>(parameter);
  INGOT_CHECK(index < parameters.size(), "parameter {} of {}", parameter, parameters.size());
  parameter_values_.resize(parameters.size(), kNoValue);
  if (parameter_values_[index] == kNoValue) {
    Value value;
    value.name = parameters[index].name;
    value.logical = parameters[index].logical;
    value.stored = parameters[index].stored;
    value.places = parameters[index].places;
    value.role = Role::kParameter;
    value.parameter = parameter;
    parameter_values_[index] = add_value(std::move(value));
  }
  return parameter_values_[index];
}

ValueId Graph::gradient_value(int parameter) {
  const auto index = static_cast<size_t>(parameter);
  gradient_values_.resize(parameters.size(), kNoValue);
  if (gradient_values_[index] == kNoValue) {
    Value value = this->value(parameter_value(parameter));
    value.name = "grad." + parameters[index].name;
    value.role = Role::kGradient;
    for (Place& place : value.places) place = gradient_place(place);
    gradient_values_[index] = add_value(std::move(value));
  }
  return gradient_values_[index];
}

ValueId Graph::find_value(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].name == name) return static_cast<ValueId>(i);
  return kNoValue;
}

std::vector<int> producers(const Graph& graph) {
  std::vector<int> result(graph.values.size(), -1);
  for (size_t i = graph.nodes.size(); i-- > 0;)
    for (const ValueId output : graph.nodes[i].outputs)
      result[static_cast<size_t>(output)] = static_cast<int>(i);
  return result;
}

Place gradient_place(Place place) {
  switch (place.kind) {
    case Placement::kBroadcast:
      return {Placement::kPartial, -1};
    case Placement::kPartial:
      return {Placement::kReplicated, -1};
    case Placement::kReplicated:
    case Placement::kSharded:
      return place;
  }
  return place;
}

}  // namespace ingot::graph
