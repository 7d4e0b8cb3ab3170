// Every layout gives what one rank gives: parameters after five AdamW steps with clipping, losses and norms,
// in double.
#include <gtest/gtest.h>

#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

class Partition : public ::testing::TestWithParam<NamedModel> {
 protected:
  Training training() const {
    Training training;
    training.build = GetParam().build;
    training.kv_heads = GetParam().kv_heads;
    return training;
  }

  void equal_one_rank(int dp, int tp, graph::Recompute recompute = graph::Recompute::kNone) {
    Training one = training();
    one.recompute = recompute;
    one.micro_batches = {2 * dp};
    const Outcome expected = train(one);
    ASSERT_EQ(expected.error, "");
    ASSERT_EQ(expected.losses.size(), 5U);
    EXPECT_LT(expected.losses.back(), expected.losses.front() + 0.5);
    for (const bool lazy : {false, true}) {
      Training many = one;
      many.dp = dp;
      many.tp = tp;
      many.micro_batches = {2};
      many.lazy = lazy;
      const Outcome outcome = train(many);
      ASSERT_EQ(outcome.error, "");
      const Worst worst = greatest_error(outcome, expected);
      EXPECT_LE(worst.difference, 1e-12) << worst.where << (lazy ? " lazy" : " eager");
      std::printf("%.1e %s\n", worst.difference, worst.where.c_str());
    }
  }
};

TEST_P(Partition, Tp2) { equal_one_rank(1, 2); }
TEST_P(Partition, Tp4) { equal_one_rank(1, 4); }
TEST_P(Partition, Dp2) { equal_one_rank(2, 1); }
TEST_P(Partition, Tp2Dp2) { equal_one_rank(2, 2); }
TEST_P(Partition, Tp2Dp2Selective) { equal_one_rank(2, 2, graph::Recompute::kSelective); }
TEST_P(Partition, Tp2Dp2Full) { equal_one_rank(2, 2, graph::Recompute::kFull); }

// A sequence that tp does not divide: all-reduces instead of reduce-scatters and gathers.
TEST_P(Partition, Tp2WithAnOddSequence) {
  Training one = training();
  one.shape.sequence = 7;
  const Outcome expected = train(one);
  ASSERT_EQ(expected.error, "");
  Training many = one;
  many.tp = 2;
  many.lazy = true;
  const Outcome outcome = train(many);
  ASSERT_EQ(outcome.error, "");
  const Worst worst = greatest_error(outcome, expected);
  EXPECT_LE(worst.difference, 1e-12) << worst.where;
}

const auto kName = [](const auto& model) { return model.param.name; };
INSTANTIATE_TEST_SUITE_P(Operation, Partition, ::testing::ValuesIn(operation_models()), kName);
INSTANTIATE_TEST_SUITE_P(Family, Partition, ::testing::ValuesIn(family_models()), kName);

}  // namespace
}  // namespace ingot::runtime
