// GPT-2: learned positions, layer norm before each half block, one GELU; without biases as nanoGPT has it.
// Hugging Face keeps its matrices [in, out] and query, key and value in one.
#include <cmath>

#include "model/blocks.h"
#include "model/families/families.h"

namespace ingot::model {
namespace {

struct Gpt2 {
  Builder& b;
  const spec::ModelSpec& s;
  std::string prefix{};

  void build() {
    const double stddev = s.initializer_range;
    const int64_t c = s.hidden_size;
    const auto tokens = table(b, "wte", "transformer.wte", s.vocab_size, c, AxisName::kVocab, stddev);
    const auto positions = table(b, "wpe", "transformer.wpe", s.max_positions, c, AxisName::kNone, stddev);
    ValueId x = b.add(b.embed(b.tokens(), tokens), b.embed(b.position(), positions));
    x = b.dropout(x, s.embedding_dropout);
    for (int layer = 0; layer < s.num_layers; ++layer) x = block(x, layer);
    finish(b, x, norm("ln_f"), tokens, s);
  }

  ValueId block(ValueId x, int layer) {
    b.layer(layer);
    prefix = "h." + std::to_string(layer) + ".";
    const int64_t heads = s.num_heads * s.head_dim;
    ValueId h = normalise(b, x, norm(prefix + "ln_1"));
    const auto q = project(b, h, projection("attn.q", "attn.c_attn", heads, 0, 3 * heads));
    const auto k = project(b, h, projection("attn.k", "attn.c_attn", heads, heads, 3 * heads));
    const auto v = project(b, h, projection("attn.v", "attn.c_attn", heads, 2 * heads, 3 * heads));
    h = b.attention(q, k, v, {.head_dim = static_cast<int>(s.head_dim)});
    x = b.add(x,
              b.dropout(project(b, h, output("attn.o", "attn.c_proj", heads, AxisName::kHeads)), s.dropout));
    h = normalise(b, x, norm(prefix + "ln_2"));
    Projection up = projection("mlp.up", "mlp.c_fc", s.intermediate_size, 0, 0);
    up.out_axis = AxisName::kFfn;
    const bool erf = s.activation == spec::Activation::kGeluErf;
    h = b.activation(project(b, h, up),
                     erf ? graph::ActivationKind::kGeluErf : graph::ActivationKind::kGeluTanh);
    const Projection down = output("mlp.down", "mlp.c_proj", s.intermediate_size, AxisName::kFfn);
    return b.add(x, b.dropout(project(b, h, down), s.dropout));
  }

  // Into the block, from the hidden size: rows [row, row + out) of a matrix that has `rows` there.
  Projection projection(const std::string& name, const std::string& theirs, int64_t out, int64_t row,
                        int64_t rows) {
    const HuggingFaceName weight{"transformer." + prefix + theirs + ".weight", true, row, rows};
    const HuggingFaceName bias{"transformer." + prefix + theirs + ".bias", false, row, rows};
    Projection p{prefix + name, weight, bias, out, s.hidden_size, AxisName::kHeads, AxisName::kEmbed};
    p.stddev = s.initializer_range;
    p.has_bias = s.bias;
    return p;
  }

  // Back to the residual, whose variance L blocks of two such outputs must not make grow.
  Projection output(const std::string& name, const std::string& theirs, int64_t in, AxisName axis) {
    Projection result = projection(name, theirs, s.hidden_size, 0, 0);
    result.in = in;
    result.out_axis = AxisName::kEmbed;
    result.in_axis = axis;
    result.stddev = s.initializer_range / std::sqrt(2.0 * static_cast<double>(s.num_layers));
    return result;
  }

  Norm norm(const std::string& name) const {
    return {name, "transformer." + name, s.hidden_size, s.norm_eps, false, s.bias};
  }
};

}  // namespace

void build_gpt2(Builder& builder, const spec::ModelSpec& spec) { Gpt2{builder, spec}.build(); }

}  // namespace ingot::model
