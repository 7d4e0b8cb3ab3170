#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "graph/ops.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

Training llama() {
  Training training;
  training.build = family_models()[2].build;
  training.steps = 4;
  return training;
}

double greatest_difference(const Parameters& a, const Parameters& b) {
  double greatest = 0;
  for (const auto& [name, values] : a)
    for (size_t i = 0; i < values.size(); ++i)
      greatest = std::max(greatest, std::abs(values[i] - b.at(name)[i]));
  return greatest;
}

TEST(Executor, TrainingLowersTheLossOfAFixedBatch) {
  Training training = llama();
  training.steps = 12;
  training.before_step = [&](Executor& executor, int step, int) {
    fill_batch(executor, training, 0, step % 2);
  };
  const Outcome outcome = train(training);
  ASSERT_EQ(outcome.error, "");
  EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 0.3);
}

TEST(Executor, LazyEqualsEagerBitForBit) {
  Training training = llama();
  training.tp = 2;
  const Outcome eager = train(training);
  training.lazy = true;
  const Outcome lazy = train(training);
  ASSERT_EQ(eager.error + lazy.error, "");
  EXPECT_EQ(eager.losses, lazy.losses);
  EXPECT_EQ(eager.parameters, lazy.parameters);
}

TEST(Executor, AnUpdateInAnotherMemorySpaceGivesTheSameBits) {
  Training training = llama();
  const Outcome near = train(training);
  for (const bool lazy : {false, true}) {
    training.lazy = lazy;
    training.backends = {"reference", "reference-far"};
    const Outcome far = train(training);
    ASSERT_EQ(near.error + far.error, "");
    EXPECT_EQ(near.losses, far.losses);
    EXPECT_EQ(near.parameters, far.parameters);
  }
}

TEST(Executor, AnOverflowOnOneRankIsSkippedByAll) {
  Training clean = llama();
  clean.dp = 2;
  clean.dynamic_scale = true;
  clean.loss_scale = 1024;
  Training spoiled = clean;
  spoiled.before_step = [](Executor& executor, int step, int rank) {
    if (step == 1 && rank == 1) executor.input("loss_mask", step % 2).as<float>()[3] = INFINITY;
  };
  std::atomic<int> adam_step{0};
  spoiled.after_step = [&](Executor&, State& state, int, int) {
    adam_step = static_cast<int>(state.find("control.scalars").as<double>()[graph::kAdamStep]);
  };
  const Outcome outcome = train(spoiled);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.applied, (std::vector<double>{1, 0, 1, 1}));
  EXPECT_EQ(outcome.scales, (std::vector<double>{1024, 512, 512, 512}));
  EXPECT_FALSE(std::isfinite(outcome.norms[1]));
  EXPECT_EQ(adam_step, 3);
  // The same as a run that never trains on that step's batch.
  Training one = clean;
  one.dp = 1;
  one.micro_batches = {4};
  one.before_step = [&](Executor& executor, int step, int) {
    if (step == 1) executor.input("loss_mask", 1).as<float>()[0] = NAN;
  };
  const Outcome expected = train(one);
  ASSERT_EQ(expected.error, "");
  for (size_t step = 2; step < 4; ++step) EXPECT_NEAR(outcome.losses[step], expected.losses[step], 1e-12);
  EXPECT_LE(greatest_difference(outcome.parameters, expected.parameters), 1e-12);
}

TEST(Executor, RequestsAreSummedOverTheWorldAndForgotten) {
  Training training = llama();
  training.dp = 2;
  training.tp = 2;
  training.steps = 3;
  training.before_step = [](Executor& executor, int step, int rank) {
    auto* block = executor.input("control.step", step % 2).as<double>() + graph::kOwnRequests;
    block[static_cast<int>(graph::Request::kStop)] = step == 1 && rank == 3 ? 1 : 0;
    block[static_cast<int>(graph::Request::kSave)] = step == 1 && rank < 2 ? 1 : 0;
    block[static_cast<int>(graph::Request::kLeave)] = step == 1 ? 1 : 0;
  };
  training.after_step = [](Executor&, State& state, int step, int) {
    const auto* sums = state.find("control.scalars").as<double>() + graph::kRequestSums;
    EXPECT_EQ(sums[static_cast<int>(graph::Request::kStop)], step == 1 ? 1 : 0);
    EXPECT_EQ(sums[static_cast<int>(graph::Request::kSave)], step == 1 ? 2 : 0);
    EXPECT_EQ(sums[static_cast<int>(graph::Request::kLeave)], step == 1 ? 4 : 0);
  };
  EXPECT_EQ(train(training).error, "");
}

// The detector itself: a plan that forgets to wait is right when everything runs at once, and wrong when
// asynchronous instructions run as late as it allows.
void forget_waits(graph::Program& program) {
  auto code = std::make_shared<graph::StageCode>(*program.code);
  for (graph::Segment& segment : code->segments)
    for (graph::Instruction& instruction : segment.instructions) instruction.waits.clear();
  program.code = code;
}

TEST(Executor, LazyFindsAReductionThatNobodyWaitsFor) {
  Training training = llama();
  training.dp = 2;
  const Outcome right = train(training);
  training.change = forget_waits;
  const Outcome eager = train(training);
  training.lazy = true;
  const Outcome lazy = train(training);
  ASSERT_EQ(right.error + eager.error + lazy.error, "");
  EXPECT_EQ(eager.losses, right.losses);
  EXPECT_EQ(lazy.losses[0], right.losses[0]);
  EXPECT_GT(std::abs(lazy.losses[1] - right.losses[1]), 1e-6);
}

TEST(Executor, LazyFindsACopyThatNobodyWaitsForByItsPoison) {
  Training training = llama();
  training.backends = {"reference", "reference-far"};
  training.steps = 2;
  training.change = forget_waits;
  const Outcome eager = train(training);
  training.lazy = true;
  const Outcome lazy = train(training);
  ASSERT_EQ(eager.error + lazy.error, "");
  // The update read staging memory into which nothing had come down.
  for (const auto& [name, moment] : eager.first_moments) EXPECT_TRUE(std::isfinite(moment[0])) << name;
  for (const auto& [name, moment] : lazy.first_moments) EXPECT_TRUE(std::isnan(moment[0])) << name;
}

TEST(Executor, Bf16AndF32StayCloseToDouble) {
  Training training = llama();
  training.learning_rate = 0.001;
  const Outcome exact = train(training);
  const std::pair<graph::Precision, double> cases[] = {{graph::Precision::kF32, 1e-5},
                                                       {graph::Precision::kBF16, 2e-2}};
  for (const auto& [precision, bound] : cases) {
    training.precision = precision;
    training.tp = 1;
    const Outcome one = train(training);
    training.tp = 2;
    const Outcome two = train(training);
    ASSERT_EQ(exact.error + one.error + two.error, "");
    for (size_t step = 0; step < exact.losses.size(); ++step) {
      EXPECT_NEAR(one.losses[step], exact.losses[step], bound);
      EXPECT_NEAR(two.losses[step], exact.losses[step], bound);
    }
  }
}

// A scale far too large overflows on purpose: steps are skipped and the scale halves until gradients fit;
// then the run is that in float32 from there on.
TEST(Executor, AnOverflowingLossScaleInHalfPrecisionRecovers) {
  Training half = llama();
  half.precision = graph::Precision::kF16;
  half.dynamic_scale = true;
  half.loss_scale = std::ldexp(1.0, 26);
  half.learning_rate = 0.001;
  half.steps = 24;
  const Outcome outcome = train(half);
  ASSERT_EQ(outcome.error, "");
  double scale = half.loss_scale;
  for (size_t step = 0; step < outcome.applied.size(); ++step) {
    if (outcome.applied[step] == 0) scale /= 2;
    EXPECT_EQ(outcome.scales[step], scale) << step;
  }
  EXPECT_EQ(std::ranges::count(outcome.applied.begin(), outcome.applied.begin() + 3, 0.0), 3);
  EXPECT_EQ(std::ranges::count(outcome.applied.end() - 8, outcome.applied.end(), 1.0), 8);
  Training single = half;
  single.precision = graph::Precision::kF32;
  single.loss_scale = 1;
  single.before_step = [&](Executor& executor, int step, int) {
    if (outcome.applied[static_cast<size_t>(step)] == 0)
      executor.input("loss_mask", step % 2).as<float>()[0] = NAN;
  };
  const Outcome expected = train(single);
  ASSERT_EQ(expected.error, "");
  EXPECT_EQ(outcome.applied, expected.applied);
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    if (outcome.applied[step] == 0) continue;
    EXPECT_NEAR(outcome.losses[step], expected.losses[step], 5e-3) << step;
    EXPECT_NEAR(outcome.norms[step], expected.norms[step], 0.02 * expected.norms[step]) << step;
  }
}

TEST(Executor, UnequalMicroBatchesAndMasksSumRight) {
  Training many = llama();
  many.dp = 2;
  many.micro_batches = {3, 1};
  Training one = llama();
  one.micro_batches = {4};
  const Outcome outcome = train(many), expected = train(one);
  ASSERT_EQ(outcome.error + expected.error, "");
  for (size_t step = 0; step < outcome.losses.size(); ++step)
    EXPECT_NEAR(outcome.losses[step], expected.losses[step], 1e-12);
  EXPECT_LE(greatest_difference(outcome.parameters, expected.parameters), 1e-12);
}

TEST(Executor, AStepWithoutATokenChangesNothing) {
  Training training = llama();
  training.steps = 2;
  std::vector<double> before;
  training.before_step = [](Executor& executor, int step, int) {
    const TensorView mask = executor.input("loss_mask", step % 2);
    if (step == 1) std::fill_n(mask.as<float>(), mask.elements(), 0.0F);
  };
  Training shorter = training;
  shorter.steps = 1;
  const Outcome outcome = train(training), expected = train(shorter);
  ASSERT_EQ(outcome.error + expected.error, "");
  EXPECT_EQ(outcome.applied[1], 0);
  EXPECT_EQ(outcome.losses[1], 0);
  EXPECT_EQ(outcome.norms[1], 0);
  EXPECT_EQ(outcome.parameters, expected.parameters);
}

TEST(Executor, AFailedCollectiveNamesItsInstructionAndTheMissingRank) {
  auto world = comm::make_local_world(2);
  Training training = llama();
  training.tp = 2;
  const graph::Program program = compile_or_fail(training, 2, graph::Purpose::kTrain);
  auto backend = backend::make_backend("reference");
  ASSERT_TRUE(backend);
  State state;
  ExecutorOptions options;
  options.comm_timeout = std::chrono::milliseconds(100);
  auto executor = Executor::create(program, state, {backend->get()}, *world[0], options);
  ASSERT_TRUE(executor) << executor.error().message;
  fill_parameters(state, program, 0);
  state.start_scalars(1);
  fill_batch(**executor, training, 0, 0);
  auto result = (*executor)->run_step(0);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kFault);
  for (const char* part : {"forward[0] mb 0", "rank 1 has not arrived", "for 0.2 s; 1 of 2 wait there"})
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(Executor, ReplayNamesTheFirstInstructionThatMadeANonFiniteValue) {
  Training training = llama();
  training.steps = 1;
  training.after_step = [&](Executor& executor, State& state, int, int) {
    auto clean = executor.find_non_finite(0);
    ASSERT_TRUE(clean);
    EXPECT_EQ(clean->instruction, -1);
    for (const State::Entry& entry : state.entries(executor.program(), 0))
      if (entry.kind == "param" && entry.parameter == "h.1.mlp.up.weight") entry.view.as<double>()[5] = NAN;
    auto found = executor.find_non_finite(0);
    ASSERT_TRUE(found);
    EXPECT_NE(found->where.find("linear #" + std::to_string(found->instruction)), std::string::npos)
        << found->where;
    EXPECT_NE(found->where.find("forward[0] mb 0"), std::string::npos) << found->where;
    const TensorView sums = executor.step_buffer("control.sums");
    for (int64_t i = 0; i < sums.elements(); ++i) EXPECT_EQ(sums.as<double>()[i], 0) << i;
  };
  EXPECT_EQ(train(training).error, "");
}

TEST(Executor, TheObserverSeesEveryInstructionInOrderOfIds) {
  Training training = llama();
  training.steps = 1;
  training.micro_batches = {1};
  std::vector<int> ids;
  training.before_step = [&](Executor& executor, int, int) {
    executor.set_observer(
        [&](const graph::Invocation&, const graph::Instruction& instruction, int64_t begin, int64_t end) {
          EXPECT_LE(begin, end);
          ids.push_back(instruction.id);
        });
  };
  training.after_step = [&](Executor& executor, State&, int, int) {
    size_t all = 0;
    for (const graph::Segment& segment : executor.program().code->segments)
      all += segment.instructions.size();
    EXPECT_EQ(ids.size(), all);
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  };
  EXPECT_EQ(train(training).error, "");
}

TEST(Executor, ArenaIsWhatThePlanSays) {
  Training training = llama();
  training.steps = 1;
  training.after_step = [](Executor& executor, State& state, int, int) {
    const graph::MemoryTotals& plan = executor.program().memory;
    EXPECT_EQ(executor.arena_bytes() + state.bytes(), plan.total());
    EXPECT_EQ(state.bytes(), plan.state + plan.derived);
  };
  EXPECT_EQ(train(training).error, "");
}

// What a rank ran, as (segment, micro-batch, instruction), is what the timeline says, and every byte is
// planned.
TEST(Executor, WhatIsRunAndHeldUnderZeroIsWhatWasCompiled) {
  using Run = std::tuple<int, int, int>;
  for (int stage = 0; stage <= 3; ++stage) {
    Training training = llama();
    training.steps = 1;
    training.dp = 2;
    training.zero_stage = stage;
    training.micro_batches = {3};
    std::array<std::vector<Run>, 2> runs;
    training.before_step = [&](Executor& executor, int, int rank) {
      executor.set_observer([&runs, rank](const graph::Invocation& invocation,
                                          const graph::Instruction& instruction, int64_t, int64_t) {
        runs[static_cast<size_t>(rank)].emplace_back(invocation.segment, invocation.micro_batch,
                                                     instruction.id);
      });
    };
    training.after_step = [&](Executor& executor, State& state, int, int rank) {
      const graph::Program& program = executor.program();
      std::vector<Run> expected;
      for (const graph::Invocation& invocation : program.timeline) {
        const graph::Segment& segment = program.code->segments[static_cast<size_t>(invocation.segment)];
        const graph::Graph& chunk = program.code->chunks[static_cast<size_t>(segment.chunk)];
        for (const graph::Instruction& instruction : segment.instructions) {
          if (!graph::runs(chunk.nodes[static_cast<size_t>(instruction.node)], invocation)) continue;
          expected.emplace_back(invocation.segment, invocation.micro_batch, instruction.id);
        }
      }
      EXPECT_EQ(runs[static_cast<size_t>(rank)], expected) << "zero " << stage;
      EXPECT_EQ(executor.arena_bytes() + state.bytes(), program.memory.total()) << "zero " << stage;
    };
    EXPECT_EQ(train(training).error, "");
  }
}

TEST(State, ABufferOfAnotherSizeIsRefusedByName) {
  Training training = llama();
  State state;
  ASSERT_TRUE(state.reserve(compile_or_fail(training, 1, graph::Purpose::kTrain)));
  ASSERT_TRUE(state.reserve(compile_or_fail(training, 3, graph::Purpose::kTrain)));
  ASSERT_TRUE(state.reserve(compile_or_fail(training, 1, graph::Purpose::kEvaluate)));
  training.precision = graph::Precision::kF32;
  auto result = state.reserve(compile_or_fail(training, 1, graph::Purpose::kTrain));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("buffer param.0"), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace ingot::runtime
