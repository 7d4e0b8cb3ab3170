#pragma once
// The visit of the model block (visit.h says what a visit is).

#include <string_view>

#include "spec/field_types.h"
#include "spec/spec.h"

namespace ingot::spec {

// config.json of the two families: the same thing under other words.
struct ModelWords {
  std::string_view positions, hidden, layers, heads, inner, activation, eps;
};
inline constexpr ModelWords kGpt2Words{
    "n_positions", "n_embd", "n_layer", "n_head", "n_inner", "activation_function", "layer_norm_epsilon"};
inline constexpr ModelWords kLlamaWords{
    "max_position_embeddings", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size",       "hidden_act",  "rms_norm_eps"};

template <class V>
void visit_sizes(ModelSpec& b, V&& v) {
  const bool gpt2 = b.family == "gpt2";
  const ModelWords& w = gpt2 ? kGpt2Words : kLlamaWords;
  v(b.family, Field{.key = "family", .help = "gpt2 or llama", .also = "model_type"});
  v(b.from, Field{.key = "from", .help = "config.json, or its folder, to read first; empty: none"});
  v(b.vocab_size, Field{.key = "vocab_size",
                        .help = "tokens; 0: those of the tokenizer",
                        .also = "padded_vocab_size",
                        .min = 0,
                        .max = 1 << 28});
  v(b.max_positions, Field{.key = w.positions,
                           .help = "longest sequence; 0: data.seq_len",
                           .also = "n_positions max_position_embeddings n_ctx block_size max_seq_len",
                           .unit = Unit::kCount,
                           .min = 0,
                           .max = 1 << 30});
  v(b.hidden_size, Field{.key = w.hidden,
                         .help = "width C; 0: the whole shape is chosen",
                         .also = "hidden_size n_embd d_model hidden_dim base_emb_dim",
                         .min = 0,
                         .max = 1 << 20});
  v(b.num_layers, Field{.key = w.layers,
                        .help = "layers L",
                        .also = "num_hidden_layers n_layer n_layers num_layers base_num_decoder_layers",
                        .min = 0,
                        .max = 1 << 16});
  v(b.num_heads, Field{.key = w.heads,
                       .help = "attention heads H",
                       .also = "num_attention_heads n_head n_heads num_heads base_num_query_heads",
                       .min = 0,
                       .max = 1 << 16});
  if (!gpt2) {
    v(b.num_kv_heads, Field{.key = "num_key_value_heads",
                            .help = "key and value heads G; 0: as many as heads",
                            .also = "num_query_groups n_query_groups num_kv_heads base_num_kv_heads",
                            .min = 0,
                            .max = 1 << 16});
    v(b.head_dim, Field{.key = "head_dim",
                        .help = "size of a head D; 0: width / heads",
                        .also = "kv_channels head_size",
                        .min = 0,
                        .max = 1 << 16});
  }
  v(b.intermediate_size,
    Field{.key = w.inner,
          .help = gpt2 ? "width of the feed-forward part F; 0: 4 times the width"
                       : "width of the feed-forward part F; 0: 8/3 of the width, in 64s",
          .also = "intermediate_size n_inner ffn_hidden_size intermediate_dim base_mlp_dim",
          .min = 0,
          .max = 1 << 24});
}

template <class V>
void visit_arithmetic(ModelSpec& b, V&& v) {
  const bool gpt2 = b.family == "gpt2";
  const ModelWords& w = gpt2 ? kGpt2Words : kLlamaWords;
  v(b.activation, Field{.key = w.activation,
                        .help = "of the feed-forward part",
                        .also = "activation_function hidden_act hidden_activation"});
  v(b.norm_eps, Field{.key = w.eps,
                      .help = "added to the variance in norms",
                      .also = "layer_norm_epsilon rms_norm_eps norm_eps layernorm_epsilon norm_epsilon",
                      .min = 0,
                      .max = 1});
  if (!gpt2) {
    v(b.rope_theta, Field{.key = "rope_theta",
                          .help = "base of the rotary frequencies",
                          .also = "rotary_base rope_base rope_max_timescale",
                          .min = 1});
    v(b.rope_scaling,
      Field{.key = "rope_scaling", .help = "stretched frequencies as Llama 3.1", .unset = "none"});
    v(b.qkv_bias, Field{.key = "attention_bias",
                        .help = "query, key and value have biases, as Qwen 2",
                        .also = "qkv_bias add_qkv_bias"});
  } else {
    v(b.bias, Field{.key = "bias", .help = "linears and norms have biases"});
  }
  v(b.tie_word_embeddings,
    Field{
        .key = "tie_word_embeddings", .help = "the output head is the embedding", .also = "tie_embeddings"});
  v(b.dropout, Field{.key = "resid_pdrop",
                     .help = "dropout of what joins the residual stream",
                     .also = "hidden_dropout residual_dropout",
                     .min = 0,
                     .max = 1,
                     .open = true});
  v(b.embedding_dropout, Field{.key = "embd_pdrop",
                               .help = "dropout after the embedding",
                               .also = "emb_pdrop",
                               .min = 0,
                               .max = 1,
                               .open = true});
  v(b.attention_dropout, Field{.key = gpt2 ? "attn_pdrop" : "attention_dropout",
                               .help = "dropout of attention weights; only 0 is supported",
                               .also = "attention_dropout attn_pdrop",
                               .min = 0,
                               .max = 1,
                               .open = true});
  v(b.initializer_range, Field{.key = "initializer_range",
                               .help = "standard deviation of the first weights",
                               .also = "init_method_std",
                               .min = 0,
                               .max = 10});
}

template <class V>
void visit(ModelSpec& b, V&& v) {
  visit_sizes(b, v);
  visit_arithmetic(b, v);
}

}  // namespace ingot::spec
