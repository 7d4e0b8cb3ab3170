// State shared out among ranks gives what one rank gives: parameters after five AdamW steps with clipping,
// losses and norms, in double, collectives early and late.
#include <gtest/gtest.h>

#include <map>

#include "graph/builder.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

using graph::Recompute;

struct Sharing {
  int stage = 1, group = 0;
  int dp = 2, tp = 1, cp = 1;
  Recompute recompute = Recompute::kNone;
  std::vector<int> micro_batches = {2};
  int64_t bucket_bytes = int64_t{64} << 20;
};

class Zero : public ::testing::TestWithParam<NamedModel> {
 protected:
  static Training training(int micro_batches) {
    Training training;
    training.build = GetParam().build;
    training.kv_heads = GetParam().kv_heads;
    training.micro_batches = {micro_batches};
    return training;
  }

  // One rank with as many micro-batches as all replicas.
  static const Outcome& one_rank(int micro_batches) {
    static std::map<std::pair<std::string, int>, Outcome> known;
    const auto [found, added] = known.emplace(std::pair(GetParam().name, micro_batches), Outcome{});
    if (added) found->second = train(training(micro_batches));
    return found->second;
  }

  static void equals_one_rank(const Sharing& sharing) {
    int all = 0;
    for (int r = 0; r < sharing.dp; ++r)
      all += sharing.micro_batches[sharing.micro_batches.size() == 1 ? 0 : static_cast<size_t>(r)];
    const Outcome& expected = one_rank(all);
    ASSERT_EQ(expected.error, "");
    ASSERT_EQ(expected.losses.size(), 5U);
    EXPECT_LT(expected.losses.back(), expected.losses.front() + 0.5);
    for (const bool lazy : {false, true}) {
      Training many = training(1);
      many.micro_batches = sharing.micro_batches;
      many.dp = sharing.dp;
      many.tp = sharing.tp;
      many.cp = sharing.cp;
      many.zero_stage = sharing.stage;
      many.zero_group = sharing.group;
      many.bucket_bytes = sharing.bucket_bytes;
      many.recompute = sharing.recompute;
      many.lazy = lazy;
      const Outcome outcome = train(many);
      ASSERT_EQ(outcome.error, "");
      const Worst worst = greatest_error(outcome, expected);
      EXPECT_LE(worst.difference, 1e-12)
          << worst.where << (lazy ? " lazy" : " eager") << ", zero " << sharing.stage << ", group "
          << sharing.group << ", dp " << sharing.dp << " tp " << sharing.tp << " cp " << sharing.cp;
    }
  }
};

TEST_P(Zero, EveryStageOverTwoRanks) {
  for (const int stage : {1, 2, 3}) equals_one_rank({.stage = stage});
}
TEST_P(Zero, EveryStageOverFourRanks) {
  for (const int stage : {1, 2, 3}) equals_one_rank({.stage = stage, .dp = 4});
}
TEST_P(Zero, GroupsOfTwoOfFour) {
  for (const int stage : {1, 2, 3}) equals_one_rank({.stage = stage, .group = 2, .dp = 4});
}
TEST_P(Zero, BesideTensorParallelism) {
  for (const int stage : {1, 2, 3}) equals_one_rank({.stage = stage, .tp = 2});
}
TEST_P(Zero, GroupsBesideTensorParallelism) {
  for (const int stage : {1, 2, 3})
    equals_one_rank({.stage = stage, .group = 2, .dp = 4, .tp = 2, .recompute = Recompute::kSelective});
}
// Context parallel ranks join the shard groups.
TEST_P(Zero, BesideContextParallelism) {
  for (const int stage : {1, 2, 3}) equals_one_rank({.stage = stage, .group = 1, .cp = 2});
  equals_one_rank({.stage = 3, .tp = 2, .cp = 2, .recompute = Recompute::kFull});
}
TEST_P(Zero, WithSelectiveRecompute) {
  for (const int stage : {2, 3}) equals_one_rank({.stage = stage, .recompute = Recompute::kSelective});
}
TEST_P(Zero, WithFullRecompute) {
  for (const int stage : {2, 3}) equals_one_rank({.stage = stage, .recompute = Recompute::kFull});
}
// One micro-batch: the first sum goes straight into the shard.
TEST_P(Zero, OneMicroBatch) {
  for (const int stage : {1, 2, 3}) equals_one_rank({.stage = stage, .micro_batches = {1}});
}
TEST_P(Zero, SmallBuckets) {
  for (const int stage : {0, 1, 2, 3}) equals_one_rank({.stage = stage, .bucket_bytes = 3000});
}
TEST_P(Zero, UnequalMicroBatches) {
  for (const int stage : {0, 1}) equals_one_rank({.stage = stage, .dp = 3, .micro_batches = {1, 3, 2}});
}

// A matrix that two chunks of one stage use: what both add to is reduced in finish.
graph::Graph layers_that_share(graph::BuildOptions options) {
  options.layers = 4;
  graph::Graph graph;
  graph::Builder b(graph, options);
  const auto matrix = [&](const char* name, int64_t rows) {
    return b.parameter({.name = name,
                        .shape = {rows, 16},
                        .axes = {graph::AxisName::kNone, graph::AxisName::kEmbed},
                        .decay = true});
  };
  graph::ValueId x = b.embed(b.tokens(), matrix("wte", 30));
  for (int layer = 0; layer < 4; ++layer) {
    b.layer(layer);
    const bool even = layer % 2 == 0;
    x = b.add(x, b.activation(b.linear(x, matrix(even ? "even" : "odd", 16)), graph::ActivationKind::kSilu));
  }
  b.layer(4);
  b.head(x, matrix("head", 30));
  return graph;
}

TEST(ZeroOfSharedLayers, EqualsOneRank) {
  Training one;
  one.build = layers_that_share;
  one.micro_batches = {8};
  const Outcome expected = train(one);
  ASSERT_EQ(expected.error, "");
  for (int stage = 0; stage <= 3; ++stage) {
    for (const bool lazy : {false, true}) {
      Training many = one;
      many.micro_batches = {4};
      many.pp = 2;
      many.schedule = "interleaved";
      many.virtual_stages = 2;
      many.first_layers = {-1, 1, 2, 3};
      many.dp = 2;
      many.zero_stage = stage;
      many.lazy = lazy;
      const Outcome outcome = train(many);
      ASSERT_EQ(outcome.error, "");
      const Worst worst = greatest_error(outcome, expected);
      EXPECT_LE(worst.difference, 1e-12) << worst.where << " zero " << stage;
    }
  }
}

const auto kName = [](const auto& model) { return model.param.name; };
INSTANTIATE_TEST_SUITE_P(Family, Zero, ::testing::ValuesIn(family_models()), kName);

}  // namespace
}  // namespace ingot::runtime
