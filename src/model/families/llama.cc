// Llama: rotary positions, RMS norm, grouped queries, SwiGLU (arXiv:2302.13971, 2407.21783); with biases of
// query, key and value it is Qwen 2.
#include "model/blocks.h"
#include "model/families/families.h"

namespace ingot::model {
namespace {

struct Llama {
  Builder& b;
  const spec::ModelSpec& s;
  std::string prefix{}, their_prefix{};

  void build() {
    const double stddev = s.initializer_range;
    const int64_t c = s.hidden_size;
    const auto tokens = table(b, "embed", "model.embed_tokens", s.vocab_size, c, AxisName::kVocab, stddev);
    ValueId x = b.embed(b.tokens(), tokens);
    x = b.dropout(x, s.embedding_dropout);
    for (int layer = 0; layer < s.num_layers; ++layer) x = block(x, layer);
    finish(b, x, norm("norm", "model.norm"), tokens, s);
  }

  ValueId block(ValueId x, int layer) {
    b.layer(layer);
    prefix = "h." + std::to_string(layer) + ".";
    their_prefix = "model.layers." + std::to_string(layer) + ".";
    const int64_t heads = s.num_heads * s.head_dim, kv_heads = s.num_kv_heads * s.head_dim;
    const int64_t f = s.intermediate_size;
    const auto rotary = rotary_options(s);
    ValueId h = normalise(b, x, norm(prefix + "attn_norm", their_prefix + "input_layernorm"));
    const auto q = into(h, "attn.q", "self_attn.q_proj", heads, AxisName::kHeads, s.qkv_bias);
    const auto k = into(h, "attn.k", "self_attn.k_proj", kv_heads, AxisName::kKvHeads, s.qkv_bias);
    const auto v = into(h, "attn.v", "self_attn.v_proj", kv_heads, AxisName::kKvHeads, s.qkv_bias);
    h = b.attention(b.rotary(q, rotary), b.rotary(k, rotary), v, {.head_dim = rotary.head_dim});
    x = b.add(x, b.dropout(back(h, "attn.o", "self_attn.o_proj", heads, AxisName::kHeads), s.dropout));
    h = normalise(b, x, norm(prefix + "mlp_norm", their_prefix + "post_attention_layernorm"));
    const auto gate = into(h, "mlp.gate", "mlp.gate_proj", f, AxisName::kFfn, false);
    const auto up = into(h, "mlp.up", "mlp.up_proj", f, AxisName::kFfn, false);
    h = back(b.swiglu(gate, up), "mlp.down", "mlp.down_proj", f, AxisName::kFfn);
    return b.add(x, b.dropout(h, s.dropout));
  }

  ValueId into(ValueId x, const std::string& name, const std::string& theirs, int64_t out, AxisName axis,
               bool bias) {
    const std::string tensor = their_prefix + theirs;
    Projection p{prefix + name, {tensor + ".weight"}, {tensor + ".bias"}, out, s.hidden_size, axis};
    p.in_axis = AxisName::kEmbed;
    p.stddev = s.initializer_range;
    p.has_bias = bias || s.bias;
    return project(b, x, p);
  }

  ValueId back(ValueId x, const std::string& name, const std::string& theirs, int64_t in, AxisName axis) {
    const std::string tensor = their_prefix + theirs;
    Projection p{prefix + name, {tensor + ".weight"}, {tensor + ".bias"}, s.hidden_size, in};
    p.out_axis = AxisName::kEmbed;
    p.in_axis = axis;
    p.stddev = s.initializer_range;
    p.has_bias = s.bias;
    return project(b, x, p);
  }

  Norm norm(const std::string& name, const std::string& theirs) const {
    return {name, theirs, s.hidden_size, s.norm_eps, true, false};
  }
};

}  // namespace

void build_llama(Builder& builder, const spec::ModelSpec& spec) { Llama{builder, spec}.build(); }

}  // namespace ingot::model
