#include "runtime/streams.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/clock.h"
#include "runtime/models_for_tests.h"
#include "runtime/training_for_tests.h"

namespace ingot::runtime {
namespace {

Issued job_of(const BoundInstruction& instruction) {
  Issued job;
  job.instruction = &instruction;
  return job;
}

TEST(StreamThread, RunsInOrderOfIssueBesideTheIssuer) {
  std::vector<int> ran;
  std::atomic<bool> open{false};
  StreamThread thread([&](Issued& job) -> Result<void> {
    while (!open) std::this_thread::yield();
    ran.push_back(job.instruction->group_index);
    return {};
  });
  std::vector<BoundInstruction> instructions(5);
  uint64_t number = 0;
  for (int i = 0; i < 5; ++i) {
    instructions[static_cast<size_t>(i)].group_index = i;
    number = thread.issue(job_of(instructions[static_cast<size_t>(i)]));
  }
  EXPECT_EQ(number, 5U);
  open = true;  // issue() did not wait for them
  ASSERT_TRUE(thread.wait(number));
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(StreamThread, TheFirstErrorEndsItAndReachesWhoeverWaits) {
  int ran = 0;
  StreamThread thread([&](Issued&) -> Result<void> {
    if (++ran == 2) return Error{ErrorCode::kFault, "the second job failed"};
    return {};
  });
  const BoundInstruction instruction;
  for (int i = 0; i < 3; ++i) thread.issue(job_of(instruction));
  EXPECT_TRUE(thread.wait(0));
  const auto result = thread.wait(3);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the second job failed");
  EXPECT_EQ(ran, 2);
}

Training replicas(int dp, int zero_stage) {
  Training training;
  training.build = family_models()[3].build;
  training.dp = dp;
  training.zero_stage = zero_stage;
  return training;
}

TEST(Streams, BesideComputeTheBitsAreTheSame) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    Training training = replicas(3, zero_stage);
    const Outcome early = train(training);
    training.beside = true;
    for (int time = 0; time < 2; ++time) {
      const Outcome beside = train(training);
      ASSERT_EQ(early.error + beside.error, "");
      EXPECT_EQ(early.losses, beside.losses) << zero_stage;
      EXPECT_EQ(early.parameters, beside.parameters) << zero_stage;
    }
  }
}

TEST(Streams, WhatComputeWaitsForIsToldApart) {
  for (const bool beside : {false, true}) {
    Training training = replicas(2, 0);
    training.beside = beside;
    std::atomic<int64_t> communication{0}, exposed{0};
    training.timed = [&](const StepTiming& timing) {
      communication += timing.communication_ns;
      exposed += timing.exposed_communication_ns;
      EXPECT_GT(timing.communication_ns, 0);
      EXPECT_LE(timing.exposed_communication_ns, timing.step_ns);
    };
    ASSERT_EQ(train(training).error, "");
    if (beside) continue;  // how much depends on the machine
    EXPECT_NEAR(static_cast<double>(exposed), static_cast<double>(communication),
                0.2 * static_cast<double>(communication));
  }
}

TEST(Streams, AMemberThatIsLostBesideComputeEndsTheStep) {
  auto world = comm::make_local_world(2);
  const Training training = replicas(2, 0);
  const graph::Program program = compile_or_fail(training, 2, graph::Purpose::kTrain);
  auto backend = backend::make_backend("reference");
  ASSERT_TRUE(backend);
  State state;
  ThreadPool pool(1);
  ExecutorOptions options;
  options.pool = &pool;
  options.overlap = Overlap::kBeside;
  options.comm_timeout = std::chrono::milliseconds(100);
  auto executor = Executor::create(program, state, {backend->get()}, *world[0], options);
  ASSERT_TRUE(executor) << executor.error().message;
  fill_parameters(state, program, 0);
  state.start_scalars(1);
  fill_batch(**executor, training, 0, 0);
  auto result = (*executor)->run_step(0);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kFault);
  for (const char* part : {"rank 1 has not arrived at all_reduce #", "gradients of", "for 0.2 s"})
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace ingot::runtime
