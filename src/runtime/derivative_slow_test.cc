// Central differences in double, for every operation and both families; recompute modes give the same bits.
#include <gtest/gtest.h>

#include <cmath>

#include "base/hash.h"
#include "base/random.h"
#include "graph/ops.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

size_t index(int64_t i) { return static_cast<size_t>(i); }

// A program on one rank, run at parameters that the test moves; the learning rate is 0.
class Probe {
 public:
  Probe(const NamedModel& model, graph::Recompute recompute) {
    training_.build = model.build;
    training_.kv_heads = model.kv_heads;
    training_.recompute = recompute;
    training_.learning_rate = 0;
    program_ = compile_or_fail(training_, 2, graph::Purpose::kTrain);
    auto backend = backend::make_backend("reference");
    INGOT_CHECK(backend.has_value(), "{}", backend.error().message);
    backend_ = std::move(*backend);
    world_ = comm::make_local_world(1);
    ExecutorOptions options;
    options.seed = 42;
    options.poison = true;
    auto executor = Executor::create(program_, state_, {backend_.get()}, *world_[0], options);
    INGOT_CHECK(executor.has_value(), "{}", executor.error().message);
    executor_ = std::move(*executor);
    fill_parameters(state_, program_, 0);
    state_.start_scalars(1);
    fill_batch(*executor_, training_, 0, 0);
  }

  // Sum over tokens at the present parameters.
  double loss() {
    state_.touch_parameters();
    auto timing = executor_->run_step(0);
    INGOT_CHECK(timing.has_value(), "{}", timing.error().message);
    const auto* scalars = state_.find("control.scalars").as<double>();
    return scalars[graph::kLastLoss] * scalars[graph::kLastTokens];
  }

  struct Part {
    std::string name;
    TensorView value, gradient;
  };
  std::vector<Part> parts() {
    std::vector<Part> result;
    const graph::StageCode& code = *program_.code;
    for (const graph::Bucket& bucket : code.buckets) {
      const TensorView gradient = executor_->step_buffer("grad." + std::to_string(bucket.id));
      const TensorView value = state_.find("param." + std::to_string(bucket.id));
      for (size_t i = 0; i < bucket.parameters.size(); ++i) {
        const graph::Parameter& parameter = code.chunks[0].parameters[index(bucket.parameters[i])];
        result.push_back({parameter.name,
                          {value.as<double>() + bucket.offsets[i], value.dtype, parameter.stored},
                          {gradient.as<double>() + bucket.offsets[i], gradient.dtype, parameter.stored}});
      }
    }
    return result;
  }

 private:
  Training training_;
  graph::Program program_;
  std::unique_ptr<backend::Backend> backend_;
  std::vector<std::unique_ptr<comm::Transport>> world_;
  State state_;
  std::unique_ptr<Executor> executor_;
};

class Derivative : public ::testing::TestWithParam<NamedModel> {};

TEST_P(Derivative, MatchesCentralDifferences) {
  Probe probe(GetParam(), graph::Recompute::kNone);
  probe.loss();
  // Copies: every further run overwrites the gradients.
  std::vector<std::vector<double>> gradients;
  double greatest = 0;
  for (const auto& part : probe.parts()) {
    gradients.emplace_back(part.gradient.as<double>(), part.gradient.as<double>() + part.gradient.elements());
    for (const double g : gradients.back()) greatest = std::max(greatest, std::abs(g));
  }
  ASSERT_GT(greatest, 0);
  constexpr double kStep = 1e-4;
  size_t which = 0;
  for (const auto& part : probe.parts()) {
    const std::vector<double>& gradient = gradients[which++];
    for (uint64_t direction = 0; direction < 2; ++direction) {
      const PhiloxKey key = random_key(direction, RandomPurpose::kInit, hash64(part.name));
      const int64_t count = part.value.elements();
      std::vector<double> at(part.value.as<double>(), part.value.as<double>() + count);
      double expected = 0, size = 0;
      const auto along = [&](int64_t i) { return random_normal(key, static_cast<uint64_t>(i), 1); };
      for (int64_t i = 0; i < count; ++i) {
        expected += gradient[index(i)] * along(i);
        size += gradient[index(i)] * gradient[index(i)];
      }
      const auto move = [&](double by) {
        for (int64_t i = 0; i < count; ++i) part.value.as<double>()[i] = at[index(i)] + by * along(i);
        return probe.loss();
      };
      // Fourth order: errors of kStep^4 times the fifth derivative.
      const double near = (move(kStep) - move(-kStep)) / (2 * kStep);
      const double far = (move(2 * kStep) - move(-2 * kStep)) / (4 * kStep);
      move(0);
      const double measured = (4 * near - far) / 3;
      EXPECT_NEAR(measured, expected, 1e-7 * std::max(std::sqrt(size), 1e-3 * greatest)) << part.name;
    }
  }
}

TEST_P(Derivative, RecomputeGivesTheSameBits) {
  std::vector<double> losses;
  std::vector<std::vector<double>> gradients;
  for (const auto mode : {graph::Recompute::kNone, graph::Recompute::kSelective, graph::Recompute::kFull}) {
    Probe probe(GetParam(), mode);
    losses.push_back(probe.loss());
    gradients.emplace_back();
    for (const auto& part : probe.parts())
      gradients.back().insert(gradients.back().end(), part.gradient.as<double>(),
                              part.gradient.as<double>() + part.gradient.elements());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(gradients[0], gradients[2]);
}

const auto kName = [](const auto& model) { return model.param.name; };
INSTANTIATE_TEST_SUITE_P(Operation, Derivative, ::testing::ValuesIn(operation_models()), kName);
INSTANTIATE_TEST_SUITE_P(Family, Derivative, ::testing::ValuesIn(family_models()), kName);

}  // namespace
}  // namespace ingot::runtime
