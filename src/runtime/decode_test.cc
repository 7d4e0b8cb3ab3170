// Programs of other purposes over the same state: evaluation, and decoding with a cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>

#include "graph/ops.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

std::unique_ptr<Executor> make_executor(const graph::Program& program, State& state,
                                        backend::Backend& backend, comm::Transport& transport) {
  ExecutorOptions options;
  options.poison = true;
  auto executor = Executor::create(program, state, {&backend}, transport, options);
  INGOT_CHECK(executor.has_value(), "{}", executor.error().message);
  return std::move(*executor);
}

void must_run(Executor& executor) {
  auto result = executor.run_step(0);
  INGOT_CHECK(result.has_value(), "{}", result.error().message);
}

// Logits [B, T, V] of the first samples, fed `at_once` tokens a call.
std::vector<double> decode(const Training& training, State& state, backend::Backend& backend,
                           comm::Transport& transport, int64_t at_once) {
  const int64_t batch = training.shape.batch, length = training.shape.sequence;
  Training piece = training;
  piece.shape.sequence = at_once;
  piece.shape.cache = length + 3;
  const graph::Program program = compile_or_fail(piece, 1, graph::Purpose::kDecode);
  auto executor = make_executor(program, state, backend, transport);
  fill_parameters(state, program, transport.rank());
  std::vector<double> logits;
  // The whole samples, to take tokens from.
  Training whole = training;
  whole.tp = 1;
  auto world = comm::make_local_world(1);
  State other;
  auto source =
      make_executor(compile_or_fail(whole, 1, graph::Purpose::kEvaluate), other, backend, *world[0]);
  fill_batch(*source, whole, 0, 0);
  const auto* tokens = source->input("tokens", 0).as<const int32_t>();
  for (int64_t first = 0; first < length; first += at_once) {
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t t = 0; t < at_once; ++t) {
        executor->input("tokens", 0).as<int32_t>()[b * at_once + t] = tokens[b * length + first + t];
        executor->input("position", 0).as<int32_t>()[b * at_once + t] = static_cast<int32_t>(first + t);
      }
    }
    must_run(*executor);
    const TensorView out = executor->step_buffer("logits");
    INGOT_CHECK(out.data != nullptr, "no logits");
    logits.insert(logits.end(), out.as<double>(), out.as<double>() + out.elements());
  }
  // [T / at_once, B, at_once, V] -> [B, T, V]
  const int64_t columns = static_cast<int64_t>(logits.size()) / (batch * length);
  std::vector<double> ordered(logits.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < length; ++t) {
      const int64_t from = ((t / at_once * batch + b) * at_once + t % at_once) * columns;
      std::copy_n(logits.begin() + from, columns, ordered.begin() + (b * length + t) * columns);
    }
  }
  return ordered;
}

class Decode : public ::testing::TestWithParam<NamedModel> {
 protected:
  Training training() const {
    Training training;
    training.build = GetParam().build;
    training.kv_heads = GetParam().kv_heads;
    training.documents = false;
    return training;
  }
};

TEST_P(Decode, WithACacheTokenByTokenEqualsAllAtOnceAndTheLossOfEvaluation) {
  const Training training = this->training();
  auto backend = backend::make_backend("reference");
  ASSERT_TRUE(backend);
  auto world = comm::make_local_world(1);
  State state;
  const std::vector<double> one = decode(training, state, **backend, *world[0], 1);
  State again;
  const std::vector<double> all = decode(training, again, **backend, *world[0], training.shape.sequence);
  EXPECT_EQ(one, all);

  const graph::Program program = compile_or_fail(training, 1, graph::Purpose::kEvaluate);
  auto executor = make_executor(program, state, **backend, *world[0]);
  state.start_scalars(1);
  fill_batch(*executor, training, 0, 0);
  must_run(*executor);
  const int64_t rows = training.shape.batch * training.shape.sequence;
  const int64_t columns = static_cast<int64_t>(one.size()) / rows;
  double loss = 0, tokens = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const double* logits = one.data() + r * columns;
    const double mask = static_cast<double>(executor->input("loss_mask", 0).as<float>()[r]);
    const double greatest = *std::max_element(logits, logits + training.vocabulary);
    double sum = 0;
    for (int64_t j = 0; j < training.vocabulary; ++j) sum += std::exp(logits[j] - greatest);
    if (mask != 0)
      loss += mask * (greatest + std::log(sum) - logits[executor->input("labels", 0).as<int32_t>()[r]]);
    tokens += mask;
  }
  const auto* scalars = state.find("control.scalars").as<double>();
  EXPECT_DOUBLE_EQ(scalars[graph::kLastLoss], loss / tokens);
  EXPECT_EQ(scalars[graph::kLastTokens], tokens);
}

TEST_P(Decode, OnTwoRanksGivesTheSameLogits) {
  Training training = this->training();
  auto backend = backend::make_backend("reference");
  ASSERT_TRUE(backend);
  auto alone = comm::make_local_world(1);
  State state;
  const std::vector<double> expected = decode(training, state, **backend, *alone[0], 1);
  training.tp = 2;
  auto world = comm::make_local_world(2);
  std::vector<std::vector<double>> logits(2);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      State own;
      logits[rank] = decode(training, own, **backend, *world[rank], 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int64_t rows = training.shape.batch * training.shape.sequence;
  const size_t columns = logits[0].size() / static_cast<size_t>(rows),
               wanted = expected.size() / static_cast<size_t>(rows);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    for (size_t j = 0; j < static_cast<size_t>(training.vocabulary); ++j) {
      EXPECT_NEAR(logits[0][r * columns + j], expected[r * wanted + j], 1e-12);
      EXPECT_EQ(logits[0][r * columns + j], logits[1][r * columns + j]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Family, Decode, ::testing::ValuesIn(family_models()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace ingot::runtime
