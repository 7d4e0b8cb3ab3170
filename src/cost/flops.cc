#include "cost/flops.h"

#include "base/check.h"

namespace ingot::cost {
namespace {

// Sizes as floating point and with G, D and F filled in: every formula below is a sum of products of them.
struct Sizes {
  double layers, hidden, heads, kv_heads, head, ffn, vocabulary, sequence, ffn_matrices;
};

spec::ModelSpec resolved(const spec::ModelSpec& spec) {
  spec::ModelSpec result = spec;
  spec::resolve_model(&result);
  INGOT_CHECK(result.head_dim > 0 && result.intermediate_size > 0, "a model of hidden size {} is not sized",
              result.hidden_size);
  return result;
}

bool is_gated(const spec::ModelSpec& spec) { return spec.family != "gpt2"; }

Sizes sizes_of(const spec::ModelSpec& s, int64_t seq_len) {
  const auto real = [](int64_t x) { return static_cast<double>(x); };
  return {real(s.num_layers),   real(s.hidden_size), real(s.num_heads),
          real(s.num_kv_heads), real(s.head_dim),    real(s.intermediate_size),
          real(s.vocab_size),   real(seq_len),       is_gated(s) ? 3.0 : 2.0};
}

// Levanter counts the mask and softmax of the scores, 3 T H, and the output projection as C * C.
double levanter(const Sizes& z) {
  const double scores = 2 * z.sequence * z.heads * z.head;
  const double layer = 2 * z.ffn_matrices * z.hidden * z.ffn +
                       2 * z.hidden * (z.heads + 2 * z.kv_heads) * z.head + 2 * z.hidden * z.hidden +
                       2 * scores + 3 * z.sequence * z.heads;
  return 3 * (z.layers * layer + 2 * z.hidden * z.vocabulary);
}

double nanotron(const Sizes& z) {
  const double projections =
      2 * z.hidden * z.head * (z.heads + 2 * z.kv_heads) + 2 * z.heads * z.head * z.hidden;
  const double layer =
      projections + 4 * z.heads * z.head * z.sequence + 2 * z.ffn_matrices * z.hidden * z.ffn;
  return 3 * (z.layers * layer + 2 * z.hidden * z.vocabulary);
}

}  // namespace

ParameterCounts count_parameters(const spec::ModelSpec& spec) {
  const spec::ModelSpec s = resolved(spec);
  const int64_t c = s.hidden_size, f = s.intermediate_size;
  const int64_t q = s.num_heads * s.head_dim, kv = s.num_kv_heads * s.head_dim;
  const int64_t matrices = 2 * c * q + 2 * c * kv + (is_gated(s) ? 3 : 2) * c * f;
  const bool layer_norm = s.family == "gpt2";
  int64_t vectors = 2 * c;
  if (s.bias) vectors += q + 2 * kv + c + c + (is_gated(s) ? 2 : 1) * f;
  if (s.bias && layer_norm) vectors += 2 * c;
  if (s.qkv_bias && !s.bias) vectors += q + 2 * kv;
  ParameterCounts counts;
  counts.embedding = s.vocab_size * c;
  counts.position = layer_norm ? s.max_positions * c : 0;
  counts.matmul = s.num_layers * matrices + s.vocab_size * c;
  counts.total = s.num_layers * (matrices + vectors) + c + (s.bias && layer_norm ? c : 0) + counts.embedding +
                 counts.position + (s.tie_word_embeddings ? 0 : s.vocab_size * c);
  return counts;
}

double flops_per_token(const spec::ModelSpec& spec, int64_t seq_len, FlopConvention convention) {
  const spec::ModelSpec s = resolved(spec);
  const ParameterCounts counts = count_parameters(s);
  const Sizes z = sizes_of(s, seq_len);
  const auto six = [](int64_t weights) { return 6 * static_cast<double>(weights); };
  const double attention = 12 * z.layers * z.heads * z.head * z.sequence;
  const double attention_by_hidden = 12 * z.layers * z.hidden * z.sequence;
  switch (convention) {
    case FlopConvention::kMfu:
      return six(counts.matmul) + attention;
    case FlopConvention::kMfuCausal:
      return six(counts.matmul) + attention / 2;
    case FlopConvention::kNanoGpt:
      return six(counts.total - counts.position) + attention;
    case FlopConvention::kLlmC:
      return six(counts.total) + attention_by_hidden / 2;
    case FlopConvention::kTorchtitan:
      return six(counts.total - (s.tie_word_embeddings ? 0 : counts.embedding)) + attention;
    case FlopConvention::kMosaic:
      return six(counts.total) + attention_by_hidden;
    case FlopConvention::kLevanter:
      return levanter(z);
    case FlopConvention::kNanotron:
      return nanotron(z);
  }
  return 0;
}

}  // namespace ingot::cost
