// Memory plans of real sizes: slots and scratch against the greatest live bytes of the unrolled step, which
// another file computes from other data (unrolled.cc), and the packing of intervals by itself.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "graph/compile.h"
#include "graph/passes/draft.h"
#include "graph/passes/pack_intervals.h"
#include "graph/targets/targets.h"
#include "graph/test_models.h"

namespace ingot::graph {
namespace {

struct Configuration {
  const char* name;
  TestModel model;
  Precision precision;
  const Target& target;
  Recompute recompute;
};

TestModel gpt2_124m() {
  TestModel m;
  m.vocabulary = 50257, m.channels = 768, m.heads = m.kv_heads = 12, m.layers = 12, m.ffn = 3072,
  m.context = 1024;
  m.batch = 4, m.sequence = 1024;
  return m;
}
TestModel llama_110m() {
  TestModel m;
  m.vocabulary = 32000, m.channels = 768, m.heads = 12, m.kv_heads = 4, m.layers = 12, m.ffn = 2048,
  m.context = 1024;
  m.batch = 8, m.sequence = 1024, m.llama = true, m.tied = false;
  return m;
}
TestModel nano_gpt_char() {
  TestModel m;
  m.vocabulary = 65, m.channels = 128, m.heads = m.kv_heads = 4, m.layers = 4, m.ffn = 512, m.context = 64;
  m.batch = 12, m.sequence = 64;
  return m;
}
TestModel tiny_llama() {
  TestModel m;
  m.vocabulary = 32000, m.channels = 2048, m.heads = 32, m.kv_heads = 4, m.layers = 22, m.ffn = 5632,
  m.context = 2048;
  m.batch = 16, m.sequence = 2048, m.llama = true, m.tied = false;
  return m;
}

std::vector<Configuration> configurations() {
  return {
      {"GPT-2 124M, T 1024, B 4, bf16", gpt2_124m(), Precision::kBF16, cpu_target(), Recompute::kNone},
      {"GPT-2 124M, T 1024, B 4, fp32, selective", gpt2_124m(), Precision::kF32, cpu_target(),
       Recompute::kSelective},
      {"Llama 110M, T 1024, B 8, bf16, full", llama_110m(), Precision::kBF16, cpu_target(), Recompute::kFull},
      {"Llama 110M, T 1024, B 8, fp32", llama_110m(), Precision::kF32, reference_target(), Recompute::kNone},
      {"nanoGPT characters, T 64, B 12, fp32", nano_gpt_char(), Precision::kF32, cpu_target(),
       Recompute::kNone},
      {"TinyLlama 1.1B, T 2048, B 16, bf16, selective", tiny_llama(), Precision::kBF16, cpu_target(),
       Recompute::kSelective}};
}

Program plan(const Configuration& c, Recompute recompute, int zero_stage = 0) {
  CompileOptions options;
  options.targets = {&c.target};
  options.precision = c.precision;
  options.recompute = recompute;
  options.threads = 2;
  options.layout.micro_batches = 2;
  options.layout.zero_stage = zero_stage;
  if (zero_stage > 0) options.layout.mesh = make_mesh(8, 1, 1, 1, 1, 4).value();
  Result<Program> program = compile(build_test_model(c.model), options);
  INGOT_CHECK(program.has_value(), "{}: {}", c.name, program.error().message);
  return std::move(program).value();
}

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

TEST(Memory, SlotsAndScratchWithinTenPercentOfTheUnrolledStep) {
  int larger_than_state = 0;
  for (const Configuration& c : configurations()) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      const Program program = plan(c, recompute);
      const int64_t planned = program.memory.slots + program.memory.scratch;
      const double ratio = static_cast<double>(planned) / static_cast<double>(program.unrolled_live_bytes);
      const bool named = recompute == c.recompute;
      fmt::print("{} {:<46} slots {:9.1f} scratch {:8.1f} live {:9.1f} MiB ratio {:.3f}, state {:8.1f}\n",
                 named ? "*" : " ", c.name, mebibytes(program.memory.slots),
                 mebibytes(program.memory.scratch), mebibytes(program.unrolled_live_bytes), ratio,
                 mebibytes(program.memory.state));
      EXPECT_LE(ratio, 1.10) << c.name;
      EXPECT_GE(ratio, 0.99) << c.name << ": the ideal cannot be beaten";
      larger_than_state += named && planned > program.memory.state ? 1 : 0;
    }
  }
  EXPECT_GE(larger_than_state, 3);
}

// What asynchronous buffers cost: gathered parameters of two layers, gradients that are still on their way.
TEST(Memory, WithZeroThreeWithinAQuarterOfTheUnrolledStep) {
  for (const Configuration& c : configurations()) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      const Program program = plan(c, recompute, 3);
      const int64_t planned = program.memory.slots + program.memory.scratch;
      const double ratio = static_cast<double>(planned) / static_cast<double>(program.unrolled_live_bytes);
      fmt::print("{:<48} slots {:9.1f} scratch {:8.1f} live {:9.1f} MiB ratio {:.3f}\n", c.name,
                 mebibytes(program.memory.slots), mebibytes(program.memory.scratch),
                 mebibytes(program.unrolled_live_bytes), ratio);
      EXPECT_LE(ratio, 1.25) << c.name;
      EXPECT_GE(ratio, 0.99) << c.name << ": the ideal cannot be beaten";
    }
  }
}

TEST(Memory, RecomputeKeepsLessTheMoreItMakesAgain) {
  for (const Configuration& c : configurations()) {
    const int64_t none = plan(c, Recompute::kNone).memory.slots;
    const int64_t selective = plan(c, Recompute::kSelective).memory.slots;
    const int64_t full = plan(c, Recompute::kFull).memory.slots;
    EXPECT_LT(selective, none) << c.name;
    EXPECT_LT(full, selective) << c.name;
    EXPECT_EQ(step_totals(plan(c, Recompute::kNone)).recompute_flops, 0);
    EXPECT_GT(step_totals(plan(c, Recompute::kFull)).recompute_flops, 0);
  }
}

TEST(Memory, CompilesAHundredLayersInMilliseconds) {
  TestModel model = llama_110m();
  model.layers = 126;
  const Configuration c{"126 layers", model, Precision::kBF16, cpu_target(), Recompute::kSelective};
  plan(c, c.recompute);
  const auto begin = std::chrono::steady_clock::now();
  const Program program = plan(c, c.recompute);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  size_t instructions = 0;
  for (const Segment& segment : program.code->segments) instructions += segment.instructions.size();
  fmt::print("126 layers: {} instructions, graph and program in {:.1f} ms\n", instructions, took.count());
  EXPECT_GT(instructions, 4000U);
  EXPECT_LT(took.count(), 2000) << "a generous bound: sanitizers and a busy machine are allowed";
}

TEST(PackIntervals, NeverOverlapsAndNeverBeatsTheLoad) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> intervals(random() % 40);
    for (Interval& interval : intervals) {
      interval.begin = static_cast<int>(random() % 30);
      interval.end = interval.begin + static_cast<int>(random() % 12);
      interval.bytes = 64 * (1 + static_cast<int64_t>(random() % 50));
    }
    const int64_t area = pack_intervals(intervals);
    EXPECT_GE(area, greatest_load(intervals));
    EXPECT_LE(area, greatest_load(intervals) * 3 / 2);
    for (size_t i = 0; i < intervals.size(); ++i) {
      const Interval& a = intervals[i];
      EXPECT_GE(a.offset, 0);
      EXPECT_LE(a.offset + a.bytes, area);
      for (size_t j = i + 1; j < intervals.size(); ++j) {
        const Interval& b = intervals[j];
        const bool together = a.begin <= b.end && b.begin <= a.end;
        const bool shared = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        EXPECT_FALSE(together && shared) << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace ingot::graph
