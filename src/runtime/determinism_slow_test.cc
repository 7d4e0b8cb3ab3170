// determinism = "layout": losses, norms, weights and optimizer state have the same bits for every dp that
// divides the number of groups.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

constexpr int kGroups = 12, kMicroBatches = 24;

struct Case {
  NamedModel model;
  std::string backend;
  graph::Precision precision;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const NamedModel& model : family_models()) {
    if (model.name != "gpt2_tied_dropout" && model.name != "llama") continue;
    result.push_back({model, "reference", graph::Precision::kF32});
    result.push_back({model, "cpu", graph::Precision::kF32});
    result.push_back({model, "cpu", graph::Precision::kBF16});
  }
  return result;
}

class LayoutDeterminism : public ::testing::TestWithParam<Case> {
 protected:
  static Training training(int dp, int groups = kGroups) {
    Training training;
    training.build = GetParam().model.build;
    training.kv_heads = GetParam().model.kv_heads;
    training.backends = {GetParam().backend};
    training.precision = GetParam().precision;
    training.dp = dp;
    training.determinism_groups = groups;
    training.micro_batches = {kMicroBatches / dp};
    training.steps = 4;
    return training;
  }

  static void same_bits(const Training& many, const Outcome& expected) {
    const Outcome outcome = train(many);
    const std::string what =
        fmt::format("dp {} zero {} tp {} threads {}", many.dp, many.zero_stage, many.tp, many.threads);
    ASSERT_EQ(outcome.error, "") << what;
    EXPECT_EQ(outcome.losses, expected.losses) << what;
    EXPECT_EQ(outcome.norms, expected.norms) << what;
    EXPECT_TRUE(outcome.parameters == expected.parameters) << what;
    EXPECT_TRUE(outcome.first_moments == expected.first_moments) << what;
  }
};

TEST_P(LayoutDeterminism, SameBitsForEveryDp) {
  const Outcome expected = train(training(1));
  ASSERT_EQ(expected.error, "");
  ASSERT_EQ(expected.losses.size(), 4U);
  for (const int dp : {1, 2, 3, 4, 6, 12}) {
    for (const int threads : {1, 2}) {
      for (const int stage : {0, 1}) {
        Training many = training(dp);
        many.zero_stage = stage;
        many.threads = threads;
        many.lazy = threads == 2;
        same_bits(many, expected);
      }
    }
  }
}

TEST_P(LayoutDeterminism, SameBitsBesideOtherAxes) {
  Training one = training(1);
  one.tp = 2;
  const Outcome expected = train(one);
  ASSERT_EQ(expected.error, "");
  for (const int dp : {2, 3}) {
    Training many = training(dp);
    many.tp = 2;
    many.zero_stage = 1;
    many.recompute = graph::Recompute::kFull;
    same_bits(many, expected);
  }
  one = training(1);
  one.cp = 2;
  const Outcome around = train(one);
  ASSERT_EQ(around.error, "");
  Training many = training(3);
  many.cp = 2;
  many.zero_stage = 1;
  same_bits(many, around);
}

TEST_P(LayoutDeterminism, SameBitsBesidePipelines) {
  for (const auto& [schedule, chunks] :
       {std::pair{"1f1b", 1}, std::pair{"zb-h1", 1}, std::pair{"interleaved", 2}}) {
    Training one = training(1);
    one.pp = 2;
    one.schedule = schedule;
    one.virtual_stages = chunks;
    const Outcome expected = train(one);
    ASSERT_EQ(expected.error, "") << schedule;
    Training many = one;
    many.dp = 3;
    many.micro_batches = {kMicroBatches / 3};
    many.zero_stage = 1;
    many.lazy = true;
    same_bits(many, expected);
  }
}

// Messages between processes, and schedules instead of shared memory.
TEST_P(LayoutDeterminism, SameBitsOverUcx) {
  const auto row = std::ranges::find(comm::all_transports(), "ucx", &comm::TransportRow::name);
  if (const std::string reason = row->unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  const Outcome expected = train(training(1));
  ASSERT_EQ(expected.error, "");
  for (const int dp : {1, 2, 4}) {
    for (const int threads : {1, 2}) {
      Training many = training(dp);
      many.transport = "ucx";
      many.zero_stage = threads - 1;
      many.threads = threads;
      many.beside = true;
      same_bits(many, expected);
    }
  }
}

// Else the tests above show nothing.
TEST_P(LayoutDeterminism, WithoutItBitsDiffer) {
  const Outcome one = train(training(1, 0)), three = train(training(3, 0));
  ASSERT_EQ(one.error + three.error, "");
  EXPECT_NE(one.parameters, three.parameters);
}

INSTANTIATE_TEST_SUITE_P(All, LayoutDeterminism, ::testing::ValuesIn(cases()), [](const auto& test) {
  return test.param.model.name + "_" + test.param.backend + "_" +
         std::string(graph::name_of(test.param.precision));
});

// The tree's sums are the sums, and the plan says what they cost.
TEST(LayoutDeterminismPlan, IsRightAndPriced) {
  Training one;
  for (const NamedModel& model : family_models())
    if (model.name == "llama_tied_dropout") one.build = model.build;
  one.micro_batches = {kMicroBatches};
  const Outcome expected = train(one);
  ASSERT_EQ(expected.error, "");
  for (const int dp : {1, 2, 3, 4, 6, 12}) {
    for (const bool lazy : {false, true}) {
      Training many = one;
      many.dp = dp;
      many.micro_batches = {kMicroBatches / dp};
      many.determinism_groups = kGroups;
      many.zero_stage = 1;
      many.lazy = lazy;
      const Outcome outcome = train(many);
      ASSERT_EQ(outcome.error, "");
      const Worst worst = greatest_error(outcome, expected);
      EXPECT_LE(worst.difference, 1e-12) << worst.where << " dp " << dp;
      const graph::Program program = compile_or_fail(many, kMicroBatches / dp, graph::Purpose::kTrain);
      many.determinism_groups = 0;
      const graph::Program plain = compile_or_fail(many, kMicroBatches / dp, graph::Purpose::kTrain);
      if (lazy) continue;
      fmt::print("dp {:2}: gradients {:7} bytes for {:7}, sent {:8.0f} for {:8.0f}\n", dp,
                 program.memory.step, plain.memory.step, graph::step_totals(program).sent_bytes,
                 graph::step_totals(plain).sent_bytes);
      // Branches that wait: 3 of 12 leaves, 2 of 6, 1 of 4, 3 or 2, none of one.
      EXPECT_GE(program.memory.step, plain.memory.step);
      EXPECT_LE(program.memory.step, 5 * plain.memory.step);
    }
  }
}

}  // namespace
}  // namespace ingot::runtime
