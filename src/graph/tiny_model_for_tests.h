#pragma once
// A forward graph of a small transformer for the tests of this layer, which may not include the model layer:
// rotary, grouped queries, SwiGLU, RMS norm, or learned positions, layer norm, GELU and biases. Tests only.

#include <string>

#include "graph/builder.h"

namespace ingot::graph {

struct TinyModel {
  int64_t vocabulary = 30, hidden = 16, heads = 4, kv_heads = 2, ffn = 24;
  int layers = 2;
  bool gpt2 = false;  // else llama
  bool tied = false;
  double dropout = 0;

  Graph build(BuildOptions options) const {
    options.layers = layers;
    Graph graph;
    Builder builder(graph, options);
    const ValueId table = matrix(builder, "wte", vocabulary, hidden, AxisName::kVocab, AxisName::kEmbed);
    ValueId x = builder.embed(builder.tokens(), table);
    if (gpt2) {
      const ValueId positions = matrix(builder, "wpe", 64, hidden, AxisName::kNone, AxisName::kEmbed);
      x = builder.add(x, builder.embed(builder.position(), positions));
    }
    for (int layer = 0; layer < layers; ++layer) x = block(builder, x, layer);
    builder.layer(layers);
    x = norm(builder, x, "ln_f");
    builder.head(
        x, tied ? table : matrix(builder, "head", vocabulary, hidden, AxisName::kVocab, AxisName::kEmbed));
    return graph;
  }

 private:
  ValueId block(Builder& b, ValueId x, int layer) const {
    b.layer(layer);
    const std::string p = "h." + std::to_string(layer) + ".";
    const int64_t head_dim = hidden / heads;
    ValueId h = norm(b, x, p + "ln_1");
    ValueId q = linear(b, h, p + "attn.q", hidden, AxisName::kHeads, AxisName::kEmbed);
    ValueId k = linear(b, h, p + "attn.k", kv_heads * head_dim, AxisName::kKvHeads, AxisName::kEmbed);
    const ValueId v = linear(b, h, p + "attn.v", kv_heads * head_dim, AxisName::kKvHeads, AxisName::kEmbed);
    const int head = static_cast<int>(head_dim);
    if (!gpt2) {
      q = b.rotary(q, {.head_dim = head});
      k = b.rotary(k, {.head_dim = head});
    }
    const ValueId o = b.attention(q, k, v, {.head_dim = head});
    x = b.add(x, b.dropout(linear(b, o, p + "attn.o", hidden, AxisName::kEmbed, AxisName::kHeads), dropout));
    h = norm(b, x, p + "ln_2");
    ValueId up = linear(b, h, p + "mlp.up", ffn, AxisName::kFfn, AxisName::kEmbed);
    if (gpt2) {
      up = b.activation(up, ActivationKind::kGeluTanh);
    } else {
      up = b.swiglu(linear(b, h, p + "mlp.gate", ffn, AxisName::kFfn, AxisName::kEmbed), up);
    }
    return b.add(x,
                 b.dropout(linear(b, up, p + "mlp.down", hidden, AxisName::kEmbed, AxisName::kFfn), dropout));
  }

  static ValueId matrix(Builder& b, const std::string& name, int64_t out, int64_t in, AxisName rows,
                        AxisName columns) {
    return b.parameter(
        {.name = name + ".weight", .shape = {out, in}, .axes = {rows, columns}, .decay = true});
  }

  ValueId linear(Builder& b, ValueId x, const std::string& name, int64_t out, AxisName rows,
                 AxisName columns) const {
    const int64_t in = columns == AxisName::kEmbed ? hidden : columns == AxisName::kFfn ? ffn : hidden;
    const ValueId w = matrix(b, name, out, in, rows, columns);
    if (!gpt2) return b.linear(x, w);
    return b.linear(x, w, b.parameter({.name = name + ".bias", .shape = {out}, .axes = {rows}}));
  }

  ValueId norm(Builder& b, ValueId x, const std::string& name) const {
    const ValueId w = b.parameter({.name = name + ".weight", .shape = {hidden}, .axes = {AxisName::kEmbed}});
    if (!gpt2) return b.rms_norm(x, w, 1e-5);
    const ValueId bias = b.parameter({.name = name + ".bias", .shape = {hidden}, .axes = {AxisName::kEmbed}});
    return b.layer_norm(x, w, bias, 1e-5);
  }
};

}  // namespace ingot::graph
