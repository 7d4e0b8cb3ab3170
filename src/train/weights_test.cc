#include "train/weights.h"

#include <gtest/gtest.h>

#include <numeric>

#include "train/small_run_for_tests.h"

namespace ingot::train {
namespace {

// Vocabulary padded on two ranks; with one key head that head is held by both.
struct Case {
  std::string family;
  int kv_heads = 2;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.family << " " << one.kv_heads; }

class WeightsOf : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Session> session(int tp, int dp = 1) const {
    SmallRun small;
    small.family = GetParam().family;
    small.kv_heads = GetParam().kv_heads;
    small.backend = "reference";
    small.tp = tp;
    small.dp = dp;
    return make_session(small);
  }
};

TEST_P(WeightsOf, InitialiseGivesTheSameBitsOnEveryLayout) {
  auto one = session(1);
  one->initialise();
  const std::vector<float> whole = all_weights(*one);
  for (const auto& [tp, dp] : {std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}}) {
    auto split = session(tp, dp);
    split->initialise();
    EXPECT_EQ(all_weights(*split), whole) << tp << " " << dp;
  }
}

TEST_P(WeightsOf, GatherIsWhatScatterPutIn) {
  auto split = session(2);
  split->initialise();
  float first = 1;
  for (const Weights::Tensor& tensor : split->weights().tensors()) {
    std::vector<float> in(static_cast<size_t>(tensor.definition->logical.elements()));
    std::iota(in.begin(), in.end(), first++);
    split->weights().scatter(tensor, 0, in);
    std::vector<float> out(in.size(), -1);
    split->weights().gather(tensor, 0, out);
    EXPECT_EQ(out, in) << tensor.kind << " of " << tensor.parameter;
  }
}

TEST_P(WeightsOf, ScatteredOverTwoRanksTheyTrainAsOnOne) {
  const SmallData data;
  auto one = session(1), two = session(2);
  one->initialise();
  two->initialise();
  for (const Weights::Tensor& tensor : one->weights().tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.definition->logical.elements()));
    one->weights().gather(tensor, 0, values);
    for (float& value : values) value *= 1.5F;
    one->weights().scatter(tensor, 0, values);
    const Weights::Tensor* same = two->weights().find(tensor.parameter, tensor.kind);
    ASSERT_NE(same, nullptr) << tensor.parameter;
    two->weights().scatter(*same, 0, values);
  }
  one->weights().touch();
  two->weights().touch();
  ASSERT_TRUE(one->start_data(data.stream(), 0, nullptr));
  ASSERT_TRUE(two->start_data(data.stream(), 0, nullptr));
  const std::vector<double> losses = losses_of(train_steps(*one, 0, 2));
  const std::vector<double> split = losses_of(train_steps(*two, 0, 2));
  for (size_t step = 0; step < losses.size(); ++step) EXPECT_NEAR(split[step], losses[step], 1e-5) << step;
}

INSTANTIATE_TEST_SUITE_P(All, WeightsOf,
                         ::testing::Values(Case{"llama", 2}, Case{"llama", 1}, Case{"gpt2", 4}));

TEST(Weights, DirectMemoryIsTheStateItselfAndOnlyWhereOneRankHoldsAllOfIt) {
  auto one = make_session({});
  one->initialise();
  const Weights::Tensor* gain = one->weights().find("norm.weight", "param");
  const Weights::Tensor& tensor = gain != nullptr ? *gain : one->weights().tensors().front();
  const std::span<float> memory = one->weights().direct(tensor);
  ASSERT_EQ(static_cast<int64_t>(memory.size()), tensor.definition->logical.elements());
  memory[1] = 42;
  std::vector<float> out(memory.size());
  one->weights().gather(tensor, 0, out);
  EXPECT_EQ(out[1], 42);
  SmallRun small;
  small.dp = 2;
  auto two = make_session(small);
  EXPECT_TRUE(two->weights().direct(two->weights().tensors().front()).empty());
}

TEST(Weights, EveryParameterHasBothMomentsAndTheyStartAtZero) {
  auto session = make_session({});
  session->initialise();
  size_t parameters = 0;
  for (const Weights::Tensor& tensor : session->weights().tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.definition->logical.elements()), -1);
    session->weights().gather(tensor, 0, values);
    const bool zero = values == std::vector<float>(values.size(), 0);
    EXPECT_EQ(zero, tensor.kind != "param") << tensor.kind << " of " << tensor.parameter;
    if (tensor.kind != "param") continue;
    ++parameters;
    EXPECT_NE(session->weights().find(tensor.parameter, "exp_avg"), nullptr);
    EXPECT_NE(session->weights().find(tensor.parameter, "exp_avg_sq"), nullptr);
  }
  EXPECT_EQ(session->weights().tensors().size(), 3 * parameters);
  EXPECT_EQ(session->weights().find("no such parameter", "param"), nullptr);
}

}  // namespace
}  // namespace ingot::train
