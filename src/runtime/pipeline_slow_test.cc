// Every pipeline gives what one rank gives: parameters after five AdamW steps with clipping, losses and
// norms, in double, messages and collectives early and late.
#include <gtest/gtest.h>

#include "graph/tiny_model_for_tests.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

using graph::Recompute;

struct Pipeline {
  const char* schedule = "1f1b";
  int pp = 2, virtual_stages = 1, micro_batches = 4;
  int dp = 1, tp = 1;
  Recompute recompute = Recompute::kNone;
  int zero_stage = 0;
};

// Of what runs beside compute.
struct Mode {
  const char* name;
  bool lazy = false, beside = false;
};

class Pipelines : public ::testing::TestWithParam<NamedModel> {
 protected:
  // One rank with as many micro-batches as all replicas, once for each number of them.
  const Outcome& one_rank(int micro_batches) {
    static std::map<std::pair<std::string, int>, Outcome> known;
    const auto [found, added] = known.emplace(std::pair(GetParam().name, micro_batches), Outcome{});
    if (added) found->second = train(training(micro_batches));
    return found->second;
  }

  static Training training(int micro_batches) {
    Training training;
    training.build = GetParam().build;
    training.kv_heads = GetParam().kv_heads;
    training.micro_batches = {micro_batches};
    return training;
  }

  void equals_one_rank(const Pipeline& pipeline) {
    const Outcome& expected = one_rank(pipeline.micro_batches * pipeline.dp);
    ASSERT_EQ(expected.error, "");
    ASSERT_EQ(expected.losses.size(), 5U);
    EXPECT_LT(expected.losses.back(), expected.losses.front() + 0.5);
    for (const Mode& mode : {Mode{"early"}, Mode{"late", true}, Mode{"beside", false, true}}) {
      Training many = training(pipeline.micro_batches);
      many.pp = pipeline.pp;
      many.virtual_stages = pipeline.virtual_stages;
      many.schedule = pipeline.schedule;
      many.dp = pipeline.dp;
      many.tp = pipeline.tp;
      many.recompute = pipeline.recompute;
      many.zero_stage = pipeline.zero_stage;
      many.lazy = mode.lazy;
      many.beside = mode.beside;
      const Outcome outcome = train(many);
      ASSERT_EQ(outcome.error, "");
      const Worst worst = greatest_error(outcome, expected);
      EXPECT_LE(worst.difference, 1e-12) << worst.where << " " << mode.name;
    }
  }
};

TEST_P(Pipelines, OneForwardOneBackward) {
  equals_one_rank({.pp = 2});
  equals_one_rank({.pp = 4});
  equals_one_rank({.pp = 4, .micro_batches = 2});
}
TEST_P(Pipelines, Interleaved) {
  equals_one_rank({.schedule = "interleaved", .pp = 2, .virtual_stages = 2});
  equals_one_rank({.schedule = "interleaved", .pp = 2, .virtual_stages = 3, .micro_batches = 2});
}
TEST_P(Pipelines, ZeroBubble) {
  equals_one_rank({.schedule = "zb-h1", .pp = 2});
  equals_one_rank({.schedule = "zb-h1", .pp = 4});
}
TEST_P(Pipelines, ForwardsFirst) { equals_one_rank({.schedule = "gpipe", .pp = 2}); }
TEST_P(Pipelines, WithRecompute) {
  equals_one_rank({.pp = 2, .recompute = Recompute::kFull});
  equals_one_rank({.schedule = "interleaved", .pp = 2, .virtual_stages = 2, .recompute = Recompute::kFull});
  equals_one_rank({.schedule = "zb-h1", .pp = 2, .recompute = Recompute::kSelective});
}
TEST_P(Pipelines, WithDataAndTensorParallelism) {
  equals_one_rank({.pp = 2, .micro_batches = 2, .dp = 2});
  equals_one_rank({.pp = 2, .micro_batches = 2, .tp = 2, .recompute = Recompute::kSelective});
  equals_one_rank({.schedule = "zb-h1", .pp = 2, .micro_batches = 2, .dp = 2, .tp = 2});
  equals_one_rank({.schedule = "interleaved", .pp = 2, .virtual_stages = 2, .micro_batches = 2, .tp = 2});
}

TEST_P(Pipelines, WithZero) {
  for (const int stage : {1, 2, 3}) {
    equals_one_rank({.pp = 2, .micro_batches = 2, .dp = 2, .zero_stage = stage});
    equals_one_rank(
        {.schedule = "interleaved", .virtual_stages = 2, .micro_batches = 2, .dp = 2, .zero_stage = stage});
    equals_one_rank({.schedule = "zb-h1", .micro_batches = 2, .dp = 2, .tp = 2, .zero_stage = stage});
  }
  equals_one_rank({.pp = 2, .micro_batches = 2, .dp = 2, .recompute = Recompute::kFull, .zero_stage = 3});
}

// One operation between embedding and head, each a stage of its own.
using Operations = Pipelines;
TEST_P(Operations, EachInAStageOfItsOwn) {
  equals_one_rank({.pp = 3});
  equals_one_rank({.schedule = "zb-h1", .pp = 3});
}
TEST_P(Operations, BesideTensorParallelism) { equals_one_rank({.pp = 2, .micro_batches = 2, .tp = 2}); }

// A value of the embedding that every layer and the head read too: it is passed on from stage to stage, and
// its gradients come back as one sum.
graph::Graph skipping(graph::BuildOptions options) {
  options.layers = 2;
  graph::Graph graph;
  graph::Builder builder(graph, options);
  const auto matrix = [&](const std::string& name, int64_t out, graph::AxisName rows) {
    return builder.parameter(
        {.name = name, .shape = {out, 16}, .axes = {rows, graph::AxisName::kEmbed}, .decay = true});
  };
  builder.layer(-1);
  const auto early = builder.embed(builder.tokens(), matrix("wte.weight", 30, graph::AxisName::kVocab));
  auto x = early;
  for (int layer = 0; layer < 2; ++layer) {
    builder.layer(layer);
    const auto y =
        builder.linear(x, matrix("h." + std::to_string(layer) + ".weight", 16, graph::AxisName::kNone));
    x = builder.add(builder.activation(y, graph::ActivationKind::kSilu), early);
  }
  builder.layer(2);
  builder.head(builder.add(x, early), matrix("head.weight", 30, graph::AxisName::kVocab));
  return graph;
}
using Skipping = Pipelines;
TEST_P(Skipping, IsPassedOn) {
  equals_one_rank({.pp = 2});
  equals_one_rank({.pp = 4});
  equals_one_rank({.schedule = "interleaved", .virtual_stages = 2});
  equals_one_rank({.schedule = "zb-h1", .pp = 4, .micro_batches = 6});
}

// Four layers: enough for six chunks with the embedding and the head.
NamedModel four_layers(std::string name, graph::TinyModel tiny) {
  tiny.layers = 4;
  return {std::move(name), [tiny](const graph::BuildOptions& options) { return tiny.build(options); },
          static_cast<int>(tiny.kv_heads)};
}

const auto kName = [](const auto& model) { return model.param.name; };
INSTANTIATE_TEST_SUITE_P(
    Family, Pipelines,
    ::testing::Values(four_layers("gpt2_tied", {.kv_heads = 4, .gpt2 = true, .tied = true, .dropout = 0.2}),
                      four_layers("llama_grouped", {.kv_heads = 2})),
    kName);

INSTANTIATE_TEST_SUITE_P(Operation, Operations, ::testing::ValuesIn(operation_models()), kName);
INSTANTIATE_TEST_SUITE_P(Skip, Skipping, ::testing::Values(NamedModel{"skipping", skipping, 2}), kName);

}  // namespace
}  // namespace ingot::runtime
