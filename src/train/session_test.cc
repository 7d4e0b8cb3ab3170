#include "train/session.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/small_run_for_tests.h"

namespace ingot::train {
namespace {

struct Case {
  std::string family;
  graph::Precision precision;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.family << (one.precision == graph::Precision::kBF16 ? " bf16" : " f32");
}

class SessionOf : public ::testing::TestWithParam<Case> {
 protected:
  SmallRun small() const {
    SmallRun small;
    small.family = GetParam().family;
    small.precision = GetParam().precision;
    return small;
  }
  bool bf16() const { return GetParam().precision == graph::Precision::kBF16; }
  const SmallData data_;
};

TEST_P(SessionOf, TheLossFalls) {
  SmallRun small = this->small();
  small.steps = 60;
  auto session = make_session(small);
  const std::vector<double> losses = losses_of(train_from_start(*session, data_, small.steps));
  EXPECT_NEAR(losses.front(), std::log(static_cast<double>(kSmallVocab)), 0.2) << "knows nothing at first";
  EXPECT_LT(losses.back(), losses.front() - 1);
}

TEST_P(SessionOf, AnyNumberOfThreadsGivesTheSameBits) {
  SmallRun small = this->small();
  auto session = make_session(small);
  const std::vector<double> losses = losses_of(train_from_start(*session, data_, 4));
  const std::vector<float> weights = all_weights(*session);
  for (const int threads : {2, 3}) {
    small.threads = threads;
    auto other = make_session(small);
    EXPECT_EQ(losses_of(train_from_start(*other, data_, 4)), losses) << threads;
    EXPECT_EQ(all_weights(*other), weights) << threads;
  }
}

TEST_P(SessionOf, TwoReplicasEqualOne) {
  SmallRun small = this->small();
  auto one = make_session(small);
  const std::vector<double> losses = losses_of(train_from_start(*one, data_, 5));
  small.dp = 2;
  small.threads = 3;
  for (small.zero_stage = 0; small.zero_stage <= 3; ++small.zero_stage) {
    SCOPED_TRACE(small.zero_stage);
    auto two = make_session(small);
    const std::vector<double> replicated = losses_of(train_from_start(*two, data_, 5));
    for (size_t step = 0; step < losses.size(); ++step)
      EXPECT_NEAR(replicated[step], losses[step], bf16() ? 1e-3 : 1e-5) << step;
    // Adam divides by the size of a gradient: where that is nothing but rounding, the sign alone may differ.
    EXPECT_LT(greatest_difference(all_weights(*two), all_weights(*one)), bf16() ? 2e-2 : 2e-3);
  }
}

TEST_P(SessionOf, SameBitsForEveryDpWhereTheLayoutIsDeterministic) {
  SmallRun small = this->small();
  small.determinism_groups = 4;
  auto one = make_session(small);
  const std::vector<double> losses = losses_of(train_from_start(*one, data_, 5));
  for (const int dp : {2, 4}) {
    SCOPED_TRACE(dp);
    small.dp = dp;
    small.threads = dp + 1;
    small.zero_stage = dp == 4 ? 1 : 0;
    auto many = make_session(small);
    EXPECT_EQ(losses_of(train_from_start(*many, data_, 5)), losses);
    EXPECT_EQ(all_weights(*many), all_weights(*one));
  }
}

TEST_P(SessionOf, OneMicroBatchEqualsFour) {
  SmallRun small = this->small();
  auto four = make_session(small);
  const std::vector<double> accumulated = losses_of(train_from_start(*four, data_, 5));
  small.micro_batch = small.global_batch;
  auto one = make_session(small);
  const std::vector<double> losses = losses_of(train_from_start(*one, data_, 5));
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(accumulated[step], losses[step], bf16() ? 1e-3 : 1e-5) << step;
}

TEST_P(SessionOf, MeasuringLeavesNoTraceAfterInitialise) {
  auto fresh = make_session(small());
  const std::vector<double> losses = losses_of(train_from_start(*fresh, data_, 3));
  auto measured = make_session(small());
  measured->initialise();
  auto seconds = measured->measure_step(0.01);
  ASSERT_TRUE(seconds) << seconds.error().message;
  EXPECT_GT(*seconds, 0);
  EXPECT_EQ(losses_of(train_from_start(*measured, data_, 3)), losses);
  EXPECT_EQ(all_weights(*measured), all_weights(*fresh));
}

INSTANTIATE_TEST_SUITE_P(All, SessionOf,
                         ::testing::Values(Case{"llama", graph::Precision::kF32},
                                           Case{"llama", graph::Precision::kBF16},
                                           Case{"gpt2", graph::Precision::kF32},
                                           Case{"gpt2", graph::Precision::kBF16}));

TEST(Session, DataFromALaterStepGoesOnWhereTheRunWas) {
  const SmallData data;
  auto whole = make_session({});
  train_from_start(*whole, data, 3);
  ASSERT_TRUE(whole->start_data(data.stream(), 3, nullptr));
  const std::vector<double> again = losses_of(train_steps(*whole, 3, 6));
  auto other = make_session({});
  const std::vector<double> straight = losses_of(train_from_start(*other, data, 6));
  EXPECT_EQ(again, std::vector<double>(straight.begin() + 3, straight.end()));
}

TEST(Session, ARequestToStopReachesAllInTheSameStep) {
  const SmallData data;
  for (const int dp : {1, 2}) {
    SmallRun small;
    small.dp = dp;
    auto session = make_session(small);
    session->initialise();
    ASSERT_TRUE(session->start_data(data.stream(), 0, nullptr));
    for (int64_t step = 0; step < 3; ++step) {
      Requests own;
      if (step == 1) own.add(graph::Request::kStop);
      if (step == 2) own.add(graph::Request::kFinish);
      auto outcome = session->step(step, own);
      ASSERT_TRUE(outcome) << outcome.error().message;
      EXPECT_EQ(outcome->requests.has(graph::Request::kStop), step == 1);
      EXPECT_EQ(outcome->requests.has(graph::Request::kFinish), step == 2);
      EXPECT_EQ(outcome->tokens, static_cast<double>(small.global_batch * kSmallSeqLen));
    }
  }
}

TEST(Session, ANonFiniteGradientChangesNothingAndItsInstructionIsNamed) {
  const SmallData data;
  for (const int dp : {1, 2}) {
    SmallRun small;
    small.dp = dp;
    auto session = make_session(small);
    session->initialise();
    const Weights::Tensor* gain = nullptr;
    for (const Weights::Tensor& tensor : session->weights().tensors())
      if (tensor.kind == "param" && tensor.definition->logical.rank() == 1 && gain == nullptr) gain = &tensor;
    ASSERT_NE(gain, nullptr);
    std::vector<float> values(static_cast<size_t>(gain->definition->logical.elements()), 1.0F);
    values[3] = NAN;
    session->weights().scatter(*gain, 0, values);
    session->weights().touch();
    const std::vector<float> before = all_weights(*session);
    ASSERT_TRUE(session->start_data(data.stream(), 0, nullptr));
    auto outcome = session->step(0, {});
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_FALSE(outcome->applied);
    EXPECT_NE(outcome->first_non_finite.find("forward[0] mb 0: norm"), std::string::npos)
        << outcome->first_non_finite;
    const std::vector<float> after = all_weights(*session);
    for (size_t i = 0; i < before.size(); ++i)
      ASSERT_TRUE(after[i] == before[i] || (std::isnan(after[i]) && std::isnan(before[i]))) << i;
    // Repaired, it trains on as if nothing had been.
    values[3] = 1;
    session->weights().scatter(*gain, 0, values);
    session->weights().touch();
    outcome = session->step(1, {});
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->applied);
    EXPECT_TRUE(std::isfinite(outcome->loss));
  }
}

TEST(Session, EvaluationMasksTheLastRowsAndIsTheSameOnTwoReplicas) {
  const SmallData data;
  auto one = make_session({});
  one->initialise();
  SmallRun small;
  small.dp = 2;
  small.global_batch = 12;
  small.micro_batch = 3;
  auto two = make_session(small);
  two->initialise();
  // Samples of 7: no multiple of 2 or 6.
  for (const int64_t tokens : {kSmallSeqLen * 7, int64_t{-1}}) {
    auto first = one->evaluate(data.stream(), tokens), second = two->evaluate(data.stream(), tokens);
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(first->tokens, tokens > 0 ? tokens : data.stream().samples(kSmallSeqLen) * kSmallSeqLen);
    EXPECT_EQ(second->tokens, first->tokens);
    EXPECT_NEAR(second->loss, first->loss, 1e-6);
    EXPECT_NEAR(first->loss, std::log(static_cast<double>(kSmallVocab)), 0.2);
  }
}

TEST(Session, EvaluationBetweenStepsChangesNothing) {
  const SmallData data;
  auto plain = make_session({});
  const std::vector<double> losses = losses_of(train_from_start(*plain, data, 4));
  auto other = make_session({});
  other->initialise();
  ASSERT_TRUE(other->start_data(data.stream(), 0, nullptr));
  std::vector<double> watched;
  for (int64_t step = 0; step < 4; ++step) {
    ASSERT_TRUE(other->evaluate(data.stream(), 200));
    watched.push_back(train_steps(*other, step, step + 1).front().loss);
  }
  EXPECT_EQ(watched, losses);
}

TEST(Session, PlannedBytesAreOfAllRanks) {
  SmallRun small;
  const int64_t one = make_session(small)->planned_bytes();
  small.dp = 2;
  small.micro_batch = 2;
  small.global_batch = 16;  // the same work a rank
  EXPECT_EQ(make_session(small)->planned_bytes(), 2 * one);
}

}  // namespace
}  // namespace ingot::train
