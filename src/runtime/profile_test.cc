#include "runtime/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

struct Profiled {
  Attribution attribution;
  std::string trace;
  double flops = 0, recompute_flops = 0;  // of one step, by the program
  size_t instructions = 0;
};

// Three steps of a small Llama on the cpu backend with two threads; the first is not profiled.
Profiled profile(graph::Recompute recompute, size_t max_events) {
  Training training;
  training.build = family_models()[2].build;
  training.precision = graph::Precision::kF32;
  training.recompute = recompute;
  training.backends = {"cpu"};
  training.steps = 3;
  Profiled result;
  ThreadPool pool(1);
  std::unique_ptr<Profiler> profiler;
  int64_t begin = 0;
  training.before_step = [&](Executor& executor, int step, int) {
    if (step == 1) {
      profiler = std::make_unique<Profiler>(executor.program(), pool, max_events);
      executor.set_observer(profiler->observer());
    }
    begin = monotonic_ns();
  };
  training.after_step = [&](Executor& executor, State&, int step, int) {
    if (step == 0) return;
    profiler->end_step(static_cast<double>(monotonic_ns() - begin) * 1e-9, 0);
    const graph::StepTotals totals = graph::step_totals(executor.program());
    result.flops = totals.flops;
    result.recompute_flops = totals.recompute_flops;
    result.attribution = profiler->attribution();
    result.trace = profiler->trace_json(3);
  };
  EXPECT_EQ(train(training).error, "");
  return result;
}

double flops_of(const Attribution& attribution, bool recomputed) {
  double sum = 0;
  for (const KindTime& kind : attribution.kinds)
    if (recomputed == kind.kind.ends_with(", recomputed")) sum += kind.flops;
  return sum;
}

TEST(Profile, FlopsAreThoseOfTheProgram) {
  const Profiled run = profile(graph::Recompute::kFull, 100'000);
  ASSERT_EQ(run.attribution.steps, 2);
  EXPECT_GT(run.recompute_flops, 0);
  EXPECT_DOUBLE_EQ(flops_of(run.attribution, true), 2 * run.recompute_flops);
  EXPECT_DOUBLE_EQ(flops_of(run.attribution, false), 2 * (run.flops - run.recompute_flops));
}

TEST(Profile, PartsAddUpToTheWall) {
  const Attribution a = profile(graph::Recompute::kNone, 100'000).attribution;
  EXPECT_NEAR(a.busy_seconds() + a.idle_seconds() + a.other_seconds() + a.data_wait_seconds * a.threads,
              a.wall_seconds * a.threads, 1e-9);
  EXPECT_GT(a.instruction_seconds(), 0);
  EXPECT_GE(a.other_seconds(), 0);  // the wall is measured apart from the instructions
  EXPECT_LT(a.other_seconds(), 0.5 * a.wall_seconds * a.threads);
  EXPECT_TRUE(std::ranges::is_sorted(a.kinds, std::ranges::greater{}, &KindTime::seconds));
}

TEST(Profile, AStepThatDoesNotFitIsNotCounted) {
  const size_t events = profile(graph::Recompute::kNone, 100'000).attribution.kinds.size();
  ASSERT_GT(events, 0U);
  const Attribution a = profile(graph::Recompute::kNone, 5).attribution;
  EXPECT_EQ(a.steps, 0);
  EXPECT_TRUE(a.kinds.empty());
}

TEST(Profile, TheTraceIsJsonWithEveryInstruction) {
  const Profiled run = profile(graph::Recompute::kNone, 100'000);
  const auto json = nlohmann::json::parse(run.trace);
  int64_t calls = 0, events = 0;
  for (const KindTime& kind : run.attribution.kinds) calls += kind.calls;
  for (const auto& event : json.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 3);
    if (event.at("ph") != "X") continue;
    ++events;
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    EXPECT_NE(event.at("args").at("what").get<std::string>().find('#'), std::string::npos);
  }
  EXPECT_EQ(events, calls);
}

}  // namespace
}  // namespace ingot::runtime
