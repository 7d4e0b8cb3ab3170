#include "model/blocks.h"

#include <optional>

namespace ingot::model {

using graph::InitKind;

ValueId project(Builder& builder, ValueId x, const Projection& projection) {
  const ValueId weight = builder.parameter({.name = projection.name + ".weight",
                                            .hugging_face = projection.weight,
                                            .shape = {projection.out, projection.in},
                                            .axes = {projection.out_axis, projection.in_axis},
                                            .init = {InitKind::kNormal, projection.stddev},
                                            .decay = true});
  if (!projection.has_bias) return builder.linear(x, weight);
  return builder.linear(x, weight,
                        builder.parameter({.name = projection.name + ".bias",
                                           .hugging_face = projection.bias,
                                           .shape = {projection.out},
                                           .axes = {projection.out_axis},
                                           .init = {InitKind::kZeros, 0}}));
}

ValueId table(Builder& builder, const std::string& name, const std::string& hugging_face, int64_t rows,
              int64_t hidden, AxisName rows_axis, double stddev) {
  return builder.parameter({.name = name + ".weight",
                            .hugging_face = {.tensor = hugging_face + ".weight"},
                            .shape = {rows, hidden},
                            .axes = {rows_axis, AxisName::kEmbed},
                            .init = {InitKind::kNormal, stddev},
                            .decay = true});
}

ValueId normalise(Builder& builder, ValueId x, const Norm& norm) {
  const ValueId weight = builder.parameter({.name = norm.name + ".weight",
                                            .hugging_face = {.tensor = norm.hugging_face + ".weight"},
                                            .shape = {norm.hidden},
                                            .axes = {AxisName::kEmbed},
                                            .init = {InitKind::kOnes, 0}});
  if (norm.rms) return builder.rms_norm(x, weight, norm.epsilon);
  if (!norm.has_bias) return builder.layer_norm(x, weight, std::nullopt, norm.epsilon);
  const ValueId bias = builder.parameter({.name = norm.name + ".bias",
                                          .hugging_face = {.tensor = norm.hugging_face + ".bias"},
                                          .shape = {norm.hidden},
                                          .axes = {AxisName::kEmbed},
                                          .init = {InitKind::kZeros, 0}});
  return builder.layer_norm(x, weight, bias, norm.epsilon);
}

void finish(Builder& builder, ValueId x, const Norm& norm, ValueId tokens, const spec::ModelSpec& spec) {
  builder.layer(static_cast<int>(spec.num_layers));
  x = normalise(builder, x, norm);
  if (!spec.tie_word_embeddings)
    tokens = table(builder, "head", "lm_head", spec.vocab_size, spec.hidden_size, AxisName::kVocab,
                   spec.initializer_range);
  builder.head(x, tokens);
}

graph::RotaryOptions rotary_options(const spec::ModelSpec& spec) {
  graph::RotaryOptions options{.head_dim = static_cast<int>(spec.head_dim), .theta = spec.rope_theta};
  if (!spec.rope_scaling) return options;
  options.factor = spec.rope_scaling->factor;
  options.low = spec.rope_scaling->low_freq_factor;
  options.high = spec.rope_scaling->high_freq_factor;
  options.original = static_cast<double>(spec.rope_scaling->original_max_position_embeddings);
  return options;
}

}  // namespace ingot::model
