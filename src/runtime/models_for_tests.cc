#include "runtime/models_for_tests.h"

#include "graph/tiny_model_for_tests.h"

namespace ingot::runtime {
namespace {

using graph::ActivationKind;
using graph::AxisName;
using graph::Builder;
using graph::Graph;
using graph::ValueId;

constexpr int64_t kChannels = 16, kVocabulary = 30;
constexpr int kHeadDim = 4;

ValueId matrix(Builder& b, const std::string& name, int64_t out, int64_t in, AxisName rows,
               AxisName columns) {
  return b.parameter({.name = name + ".weight", .shape = {out, in}, .axes = {rows, columns}, .decay = true});
}
ValueId vector(Builder& b, const std::string& name, int64_t size, AxisName axis) {
  return b.parameter({.name = name, .shape = {size}, .axes = {axis}});
}

// embedding -> middle -> head
BuildGraph around(const std::function<ValueId(Builder&, ValueId)>& middle) {
  return [middle](graph::BuildOptions options) {
    options.layers = 1;
    Graph graph;
    Builder b(graph, options);
    b.layer(-1);
    const ValueId table = matrix(b, "wte", kVocabulary, kChannels, AxisName::kVocab, AxisName::kEmbed);
    const ValueId x = b.embed(b.tokens(), table);
    b.layer(0);
    const ValueId y = middle(b, x);
    b.layer(1);
    b.head(y, matrix(b, "head", kVocabulary, kChannels, AxisName::kVocab, AxisName::kEmbed));
    return graph;
  };
}

ValueId projection(Builder& b, ValueId x, const std::string& name, int64_t out, AxisName axis) {
  return b.linear(x, matrix(b, name, out, kChannels, axis, AxisName::kEmbed),
                  vector(b, name + ".bias", out, axis));
}
ValueId back(Builder& b, ValueId x, int64_t in, AxisName axis) {
  return b.linear(x, matrix(b, "back", kChannels, in, AxisName::kEmbed, axis),
                  vector(b, "back.bias", kChannels, AxisName::kEmbed));
}

BuildGraph activation_model(ActivationKind kind) {
  return around([kind](Builder& b, ValueId x) {
    return back(b, b.activation(projection(b, x, "up", 12, AxisName::kFfn), kind), 12, AxisName::kFfn);
  });
}

struct AttentionCase {
  int64_t kv_heads = 4;
  bool rotary = false;
  graph::RotaryOptions options{};
};
BuildGraph attention_model(AttentionCase c) {
  return around([c](Builder& b, ValueId x) {
    ValueId q = projection(b, x, "q", kChannels, AxisName::kHeads);
    ValueId k = projection(b, x, "k", c.kv_heads * kHeadDim, AxisName::kKvHeads);
    const ValueId v = projection(b, x, "v", c.kv_heads * kHeadDim, AxisName::kKvHeads);
    if (c.rotary) {
      q = b.rotary(q, c.options);
      k = b.rotary(k, c.options);
    }
    return back(b, b.attention(q, k, v, {.head_dim = kHeadDim}), kChannels, AxisName::kHeads);
  });
}

}  // namespace

std::vector<NamedModel> family_models() {
  using graph::TinyModel;
  const auto named = [](std::string name, TinyModel model) {
    return NamedModel{std::move(name),
                      [model](const graph::BuildOptions& options) { return model.build(options); },
                      static_cast<int>(model.kv_heads)};
  };
  return {
      named("gpt2", {.kv_heads = 4, .gpt2 = true}),
      named("gpt2_tied_dropout", {.kv_heads = 4, .gpt2 = true, .tied = true, .dropout = 0.2}),
      named("llama", {.kv_heads = 2}),
      named("llama_tied_dropout", {.kv_heads = 2, .tied = true, .dropout = 0.2}),
      named("llama_one_kv_head", {.kv_heads = 1}),
  };
}

std::vector<NamedModel> operation_models() {
  graph::RotaryOptions plain{.head_dim = kHeadDim};
  graph::RotaryOptions documents{.head_dim = kHeadDim, .theta = 100, .document_positions = true};
  graph::RotaryOptions scaled{
      .head_dim = kHeadDim, .theta = 100, .factor = 8, .low = 1, .high = 4, .original = 64};
  return {
      {"embed_head", around([](Builder&, ValueId x) { return x; }), 4},
      {"position_embed", around([](Builder& b, ValueId x) {
         return b.add(
             x, b.embed(b.position(), matrix(b, "wpe", 64, kChannels, AxisName::kNone, AxisName::kEmbed)));
       }),
       4},
      {"linear", around([](Builder& b, ValueId x) {
         return back(b, projection(b, x, "up", 12, AxisName::kFfn), 12, AxisName::kFfn);
       }),
       4},
      {"layer_norm", around([](Builder& b, ValueId x) {
         return b.layer_norm(x, vector(b, "ln.weight", kChannels, AxisName::kEmbed),
                             vector(b, "ln.bias", kChannels, AxisName::kEmbed), 1e-5);
       }),
       4},
      {"rms_norm", around([](Builder& b, ValueId x) {
         return b.rms_norm(x, vector(b, "ln.weight", kChannels, AxisName::kEmbed), 1e-5);
       }),
       4},
      {"gelu_tanh", activation_model(ActivationKind::kGeluTanh), 4},
      {"gelu_erf", activation_model(ActivationKind::kGeluErf), 4},
      {"silu", activation_model(ActivationKind::kSilu), 4},
      {"swiglu", around([](Builder& b, ValueId x) {
         return back(b,
                     b.swiglu(projection(b, x, "gate", 12, AxisName::kFfn),
                              projection(b, x, "up", 12, AxisName::kFfn)),
                     12, AxisName::kFfn);
       }),
       4},
      {"add", around([](Builder& b, ValueId x) { return b.add(x, b.add(x, x)); }), 4},
      {"dropout", around([](Builder& b, ValueId x) { return b.dropout(x, 0.3); }), 4},
      {"attention", attention_model({}), 4},
      {"attention_grouped", attention_model({.kv_heads = 2}), 2},
      {"attention_one_kv_head", attention_model({.kv_heads = 1}), 1},
      {"rotary", attention_model({.kv_heads = 2, .rotary = true, .options = plain}), 2},
      {"rotary_documents", attention_model({.kv_heads = 4, .rotary = true, .options = documents}), 4},
      {"rotary_scaled", attention_model({.kv_heads = 4, .rotary = true, .options = scaled}), 4},
  };
}

}  // namespace ingot::runtime
