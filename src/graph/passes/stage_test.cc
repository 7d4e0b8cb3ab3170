// Cutting a model into chunks: where, what crosses, and what each stage holds.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/compile.h"
#include "graph/ops.h"
#include "graph/passes/draft.h"
#include "graph/targets/targets.h"
#include "graph/test_models.h"

namespace ingot::graph {
namespace {

CompileOptions options_for(int stages, int virtual_stages = 1, int micro_batches = 4) {
  CompileOptions options;
  options.targets = {&reference_target()};
  options.layout.mesh.sizes[static_cast<size_t>(Axis::kPp)] = stages;
  options.layout.virtual_stages = virtual_stages;
  options.layout.schedule = virtual_stages > 1 ? "interleaved" : "1f1b";
  options.layout.micro_batches = micro_batches;
  return options;
}

std::vector<Program> compiled(const Graph& graph, const CompileOptions& options) {
  std::vector<Program> programs;
  for (int stage = 0; stage < options.layout.mesh.size(Axis::kPp); ++stage) {
    Result<Program> program = compile(graph, options, stage);
    INGOT_CHECK(program.has_value(), "{}", program.error().message);
    programs.push_back(std::move(program).value());
  }
  const auto verified = verify_transfers(programs);
  INGOT_CHECK(verified.has_value(), "{}", verified.error().message);
  return programs;
}

TestModel model_of(int64_t layers, int64_t vocabulary = 11) {
  TestModel model;
  model.layers = layers;
  model.vocabulary = vocabulary;
  return model;
}

std::vector<std::string> parameters_of(const Program& program) {
  std::vector<std::string> names;
  for (const Parameter& parameter : program.code->chunks[0].parameters) names.push_back(parameter.name);
  return names;
}

// Sums over the timelines, in FLOPs: what a stage works in a step.
double greatest_work(const std::vector<Program>& programs) {
  double greatest = 0;
  for (const Program& program : programs) greatest = std::max(greatest, step_totals(program).flops);
  return greatest;
}

TEST(Stages, AreBalancedWithTheHeadCounted) {
  // A small head goes with its share of layers.
  TestModel model = model_of(8);
  model.channels = 64, model.ffn = 256;
  EXPECT_EQ(compiled(build_test_model(model), options_for(4))[0].layout.first_layers,
            (std::vector<int>{-1, 2, 4, 6}));
  // A layer has 12 * 64 * 64 weights in products: this head costs as much as two.
  model.vocabulary = 2 * 12 * 64;
  const std::vector<Program> heavy = compiled(build_test_model(model), options_for(4));
  const std::vector<int>& chosen = heavy[0].layout.first_layers;
  EXPECT_GE(chosen.back(), 7) << fmt::format("{}", fmt::join(chosen, " "));
  // No other cut into four pieces does with less.
  CompileOptions other = options_for(4);
  for (int a = 0; a <= 6; a += 2)
    for (int b = a + 1; b <= 7; ++b)
      for (int c = b + 1; c <= 8; ++c) {
        other.layout.first_layers = {-1, a, b, c};
        EXPECT_GE(greatest_work(compiled(build_test_model(model), other)), greatest_work(heavy) * 0.999)
            << a << " " << b << " " << c;
      }
}

TEST(Stages, ListTheirOwnParametersAndShareOnlyTheTied) {
  TestModel model = model_of(3);
  const std::vector<Program> programs = compiled(build_test_model(model), options_for(3));
  std::multiset<std::string> held;
  for (const Program& program : programs)
    for (const std::string& name : parameters_of(program)) held.insert(name);
  const Program whole = compile(build_test_model(model), options_for(1)).value();
  for (const std::string& name : parameters_of(whole))
    EXPECT_EQ(held.count(name), name == "wte.weight" ? 2U : 1U) << name;
  EXPECT_EQ(std::ranges::count(parameters_of(programs[1]), "wte.weight"), 0);
  for (const int stage : {0, 2}) {
    const Bucket& bucket = programs[static_cast<size_t>(stage)].code->buckets[0];
    EXPECT_EQ(bucket.parameters.size(), 1U);
    EXPECT_EQ(bucket.norm_weight, 0.5);
    EXPECT_EQ(bucket.replica_axes, kTiedMask);
  }
}

TEST(Stages, SendOnlyWhatHasAGradient) {
  // Sequence parallel ranks slice positions and document starts once, for all layers: every chunk does it for
  // itself. So does each make its casts of a tied table.
  TestModel model = model_of(4);
  model.llama = true;
  CompileOptions options = options_for(4);
  options.precision = Precision::kBF16;
  options.layout.mesh = make_mesh(1, 2, 4, 1, 1, 2).value();
  for (const Program& program : compiled(build_test_model(model), options)) {
    std::set<std::string> crossing;
    for (const Transfer& transfer : program.transfers) {
      const Value& value = program.code->chunks[0].value(transfer.value);
      EXPECT_EQ(value.stored, (Shape{2, 2, 8})) << value.name << " is a half of the sequence";
      crossing.insert(value.name);
    }
    const bool end = program.stage == 0 || program.stage == 3;
    EXPECT_EQ(crossing.size(), end ? 2U : 4U) << fmt::format("{}", fmt::join(crossing, " "));
  }
}

// Two layers with a value of the first that the head reads too.
Graph with_a_value_that_skips() {
  BuildOptions build;
  build.batch = 2, build.sequence = 4, build.layers = 2;
  Graph graph;
  Builder builder(graph, build);
  const auto matrix = [&](const char* name, int64_t out, int64_t in) {
    ParameterOptions options;
    options.name = name, options.shape = {out, in}, options.axes = {AxisName::kNone, AxisName::kNone};
    return builder.parameter(options);
  };
  builder.layer(-1);
  const ValueId early = builder.embed(builder.tokens(), matrix("wte.weight", 11, 8));
  ValueId x = early;
  for (int layer = 0; layer < 2; ++layer) {
    builder.layer(layer);
    x = builder.linear(x, matrix(layer == 0 ? "h.0.up.weight" : "h.1.up.weight", 8, 8));
  }
  builder.layer(2);
  builder.head(builder.add(x, early), matrix("head.weight", 11, 8));
  return graph;
}

TEST(Stages, PassOnWhatSkipsThem) {
  const std::vector<Program> programs = compiled(with_a_value_that_skips(), options_for(4));
  const auto crossing = [&](int stage, bool send, int peer) {
    std::set<std::string> names;
    for (const Transfer& transfer : programs[static_cast<size_t>(stage)].transfers)
      if (transfer.send == send && transfer.peer == peer)
        names.insert(programs[static_cast<size_t>(stage)].code->chunks[0].value(transfer.value).name);
    return names;
  };
  EXPECT_EQ(crossing(1, false, -1), (std::set<std::string>{"wte"}));
  EXPECT_EQ(crossing(1, true, 1), (std::set<std::string>{"wte", "h.0.up"}));
  EXPECT_EQ(crossing(2, true, 1), (std::set<std::string>{"wte", "h.1.up"}));
  EXPECT_EQ(crossing(3, false, -1), (std::set<std::string>{"wte", "h.1.up"}));
  // The head's input is a sum: one gradient, and a message for each summand.
  EXPECT_EQ(crossing(3, true, -1).size(), 1U);
  EXPECT_EQ(std::ranges::count(programs[3].transfers, true, &Transfer::send), 2 * 4);
  EXPECT_EQ(crossing(1, true, -1).size(), 1U) << "the sum of both gradients";
}

TEST(Stages, RefuseToShareWithAStageBetween) {
  BuildOptions build;
  build.batch = 2, build.sequence = 4, build.layers = 2;
  Graph graph;
  Builder builder(graph, build);
  const auto matrix = [&](const char* name, int64_t out) {
    ParameterOptions options;
    options.name = name, options.shape = {out, 8}, options.axes = {AxisName::kNone, AxisName::kNone};
    return builder.parameter(options);
  };
  builder.layer(-1);
  ValueId x = builder.embed(builder.tokens(), matrix("wte.weight", 11));
  for (int layer = 0; layer < 2; ++layer) {
    builder.layer(layer);
    x = builder.linear(x, matrix("shared.weight", 8));
  }
  builder.layer(2);
  builder.head(x, matrix("head.weight", 11));
  EXPECT_EQ(
      compile(graph, options_for(4)).error().message,
      "shared.weight is read by 2 of 4 pipeline stages; only the first and the last can share a parameter");
}

TEST(Stages, SlotsHoldWhatTheScheduleHasInFlight) {
  const auto slots = [](const Program& program, Space space) {
    return program.pools[static_cast<size_t>(space) - kFirstSlotSpace].slots;
  };
  for (const Program& program : compiled(build_test_model(model_of(8)), options_for(4, 1, 8))) {
    EXPECT_EQ(slots(program, Space::kForwardBackward), 4 - program.stage) << "1f1b runs ahead so far";
    EXPECT_EQ(slots(program, Space::kOutForward), program.stage < 3 ? 2 : 0);
    EXPECT_EQ(slots(program, Space::kOutBackward), program.stage > 0 ? 2 : 0);
  }
  // (pp - stage - 1) * 2 + (v - 1) * pp + 1, by the schedule and no formula of ours.
  for (const Program& program : compiled(build_test_model(model_of(8)), options_for(4, 2, 8)))
    EXPECT_EQ(slots(program, Space::kForwardBackward), (4 - program.stage - 1) * 2 + 4 + 1) << program.stage;
}

TEST(Stages, DescribeTheirTransfers) {
  const std::vector<Program> programs = compiled(build_test_model(model_of(2)), options_for(2));
  const Transfer& received = programs[1].transfers.front();
  EXPECT_EQ(describe(programs[1], received), "receive #0 (h.0.add.2, mb 0) from stage 0");
  EXPECT_EQ(
      describe(programs[0], *std::ranges::find(programs[0].transfers, true, &Transfer::send)).substr(0, 6),
      "send #");
}

}  // namespace
}  // namespace ingot::graph
