#include "graph/builder.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "graph/ops.h"

namespace ingot::graph {

Builder::Builder(Graph& graph, const BuildOptions& options) : graph_(graph), options_(options) {
  graph_.layers = options.layers;
}

void Builder::layer(int index) { layer_ = index; }

ValueId Builder::parameter(const ParameterOptions& options) {
  for (size_t i = 0; i < graph_.parameters.size(); ++i) {
    const Parameter& known = graph_.parameters[i];
    if (known.name != options.name) continue;
    INGOT_CHECK(known.logical == options.shape, "{} is {} and {}", options.name, known.logical.to_string(),
                options.shape.to_string());
    return graph_.parameter_value(static_cast<int>(i));
  }
  INGOT_CHECK(static_cast<int>(options.axes.size()) == options.shape.rank(),
              "{} has {} dimensions and {} axes", options.name, options.shape.rank(), options.axes.size());
  Parameter parameter;
  parameter.name = options.name;
  parameter.hugging_face = options.hugging_face;
  parameter.logical = parameter.stored = options.shape;
  parameter.axes = options.axes;
  parameter.init = options.init;
  parameter.decay = options.decay;
  parameter.matrix_unit = options.shape.rank() == 2;
  parameter.layer = layer_;
  graph_.parameters.push_back(std::move(parameter));
  return graph_.parameter_value(static_cast<int>(graph_.parameters.size() - 1));
}

ValueId Builder::state(const std::string& name, const Shape& shape, DType dtype) {
  const auto found = named_.find(name);
  if (found != named_.end()) return found->second;
  Value value;
  value.name = name;
  value.logical = value.stored = shape;
  value.dtype = dtype;
  value.role = Role::kState;
  return named_[name] = graph_.add_value(std::move(value));
}

ValueId Builder::batch_field(const std::string& name, DType dtype) {
  const Shape shape =
      name == "batch.sample" ? Shape{options_.batch} : Shape{options_.batch, options_.sequence};
  const ValueId field = state(name, shape, dtype);
  graph_.value(field).role = Role::kData;
  return field;
}

ValueId Builder::node(Op op, std::vector<ValueId> inputs, const Attributes& attributes) {
  Node node{.op = op, .layer = layer_, .inputs = std::move(inputs)};
  node.attributes = attributes;
  return graph_.add_node(std::move(node))[0];
}

ValueId Builder::tokens() { return batch_field("batch.tokens", DType::kI32); }
ValueId Builder::position() { return batch_field("batch.position", DType::kI32); }

ValueId Builder::embed(ValueId ids, ValueId table) { return node(Op::kEmbed, {ids, table}); }

ValueId Builder::linear(ValueId x, ValueId weight, std::optional<ValueId> bias) {
  std::vector<ValueId> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  return node(Op::kLinear, std::move(inputs));
}

ValueId Builder::layer_norm(ValueId x, ValueId weight, std::optional<ValueId> bias, double epsilon) {
  std::vector<ValueId> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  return node(Op::kNorm, std::move(inputs), {.epsilon = epsilon});
}

ValueId Builder::rms_norm(ValueId x, ValueId weight, double epsilon) {
  return node(Op::kNorm, {x, weight}, {.rms = true, .epsilon = epsilon});
}

ValueId Builder::rotary(ValueId x, const RotaryOptions& options) {
  Attributes attributes;
  attributes.head_dim = options.head_dim;
  attributes.theta = options.theta;
  attributes.rope_factor = options.factor;
  attributes.rope_low = options.low;
  attributes.rope_high = options.high;
  attributes.rope_original = options.original;
  // A decoded sequence is one document that begins at 0.
  attributes.document_positions = options.document_positions && options_.purpose != Purpose::kDecode;
  std::vector<ValueId> inputs{x, position()};
  if (attributes.document_positions) inputs.push_back(batch_field("batch.doc_start", DType::kI32));
  return node(Op::kRotary, std::move(inputs), attributes);
}

ValueId Builder::attention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options) {
  Attributes attributes;
  attributes.head_dim = options.head_dim;
  attributes.scale =
      options.scale != 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(options.head_dim));
  if (options_.purpose == Purpose::kDecode) return cached_attention(q, k, v, attributes);
  const ValueId positions = position();
  return node(Op::kAttention, {q, k, v, positions, positions, batch_field("batch.doc_start", DType::kI32)},
              attributes);
}

ValueId Builder::cached_attention(ValueId q, ValueId k, ValueId v, const Attributes& attributes) {
  const Value& key = graph_.value(k);
  const Shape shape{options_.batch, options_.cache, key.stored.last()};
  const DType dtype = key.dtype;
  const ValueId cache_k = state(fmt::format("cache.k.{}", layer_), shape, dtype);
  const ValueId cache_v = state(fmt::format("cache.v.{}", layer_), shape, dtype);
  Node append{.op = Op::kCacheAppend, .layer = layer_, .inputs = {k, v, position(), cache_k, cache_v}};
  append.outputs = {cache_k, cache_v};
  append.attributes = attributes;
  graph_.add_node(std::move(append));
  return node(Op::kAttentionCached, {q, cache_k, cache_v, position()}, attributes);
}

ValueId Builder::activation(ValueId x, ActivationKind kind) {
  return node(Op::kActivation, {x}, {.activation = kind});
}

ValueId Builder::swiglu(ValueId gate, ValueId up) {
  return node(Op::kActivation, {gate, up}, {.activation = ActivationKind::kSwiGlu});
}

ValueId Builder::add(ValueId a, ValueId b) { return node(Op::kAdd, {a, b}); }

ValueId Builder::dropout(ValueId x, double rate) {
  const uint64_t site = next_site_++;
  if (rate == 0 || options_.purpose != Purpose::kTrain) return x;
  return node(Op::kDropout, {x, batch_field("batch.sample", DType::kI64), position()},
              {.rate = rate, .site = site});
}

void Builder::head(ValueId x, ValueId weight) {
  for (const Node& node : graph_.nodes)
    if (node.op == Op::kEmbed && node.inputs[1] == weight)
      graph_.parameters[static_cast<size_t>(graph_.value(weight).parameter)].tied = true;
  if (options_.purpose == Purpose::kDecode) {
    Value logits = graph_.value(x);
    logits.name = "logits";
    logits.logical.set(2, graph_.value(weight).logical[0]);
    logits.stored.set(2, graph_.value(weight).stored[0]);
    Node node{.op = Op::kLinear, .layer = layer_, .inputs = {x, weight}};
    node.outputs = {graph_.add_value(std::move(logits))};
    graph_.add_node(std::move(node));
    return;
  }
  const Shape block{kControlBlock};
  Node loss{.op = Op::kHeadLoss, .layer = layer_};
  loss.inputs = {x, weight, batch_field("batch.labels", DType::kI32),
                 batch_field("batch.loss_mask", DType::kF32), state("control.scalars", block, DType::kF64)};
  loss.outputs = {state("control.sums", block, DType::kF64)};
  loss.attributes.vocabulary = graph_.value(weight).logical[0];
  graph_.add_node(std::move(loss));
}

}  // namespace ingot::graph
