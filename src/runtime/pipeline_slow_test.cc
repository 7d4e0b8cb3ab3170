// Every pipeline gives what one rank gives: parameters after five AdamW steps with clipping, losses and
// norms, in double, messages and collectives early and late.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "graph/tiny_model_for_tests.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

using graph::Recompute;

struct Pipeline {
  const char* schedule = "1f1b";
  int pp = 2, virtual_stages = 1, micro_batches = 4;
  int dp = 1, tp = 1;
  Recompute recompute = Recompute::kNone;
  int zero_stage = 0;
};

// Of what runs beside compute.
struct Mode {
  const char* name;
  bool lazy = false, beside = false;
};

class Pipelines : public ::testing::TestWithParam<NamedModel> {
 protected:
  // One rank with as many micro-batches as all replicas, once for each number of them.
  const Outcome& one_rank(int micro_batches) {
    static std::map<std::pair<std::string, int>, Outcome> known;
    const auto [found, added] = known.emplace(std::pair(GetParam().name, micro_batches), Outcome{});
    if (added) found->second = train(training(micro_batches));
    return found->second;
  }

  static Training training(int micro_batches) {
    Training training;
    training.build = GetParam().build;
    training.kv_heads = GetParam().kv_heads;
    training.micro_batches = {micro_batches};
    return training;
  }

  void equals_one_rank(const Pipeline& pipeline) {
    const Outcome& expected = one_rank(pipeline.micro_batches * pipeline.dp);
    ASSERT_EQ(expected.error, "");
    ASSERT_EQ(expected.losses.size(), 5U);
    EXPECT_LT(expected.losses.back(), expected.losses.front() + 0.5);
    for (const Mode& mode : {Mode{"early"}, Mode{"late", true}, Mode{"beside", false, true}}) {
      Training many = training(pipeline.micro_batches);
      many.pp = pipeline.pp;
      many.virtual_stages = pipeline.virtual_stages;
      many.schedule = pipeline.schedule;
      many.dp = pipeline.dp;
      many.tp = pipeline.tp;
      many.recompute = pipeline.recompute;
      many.zero_stage = pipeline.zero_stage;
      many.lazy = mode.lazy;
      many.beside = mode.beside;
      const Outcome outcome = train(many);
      ASSERT_EQ(outcome.error, "");
      const Worst worst = greatest_error(outcome, expected);
      EXPECT_LE(worst.difference, 1e-12) << worst.where << " " << mode.name;
    }
  }
};

TEST_P(Pipelines, OneForwardOneBackward) {
  equals_one_rank({.pp = 2});
  equals_one_rank({.pp = 4});
  equals_one_rank({.pp = 4, .micro_batches = 2});
}
TEST_P(Pipelines, Interleaved) {
  equals_one_rank({.schedule = "interleaved", .pp = 2, .virtual_stages = 2});
  equals_one_rank({.schedule = "interleaved", .pp = 2, .virtual_stages = 3, .micro_batches = 2});
}
TEST_P(Pipelines, ZeroBubble) {
  equals_one_rank({.schedule = "zb-h1", .pp = 2});
  equals_one_rank({.schedule = "zb-h1", .pp = 4});
}
TEST_P(Pipelines, ForwardsFirst) { equals_one_rank({.schedule = "gpipe", .pp = 2}); }
TEST_P(Pipelines, WithRecompute) {
  equals_one_rank({.pp = 2, .recompute = Recompute::kFull});
  equals_one_rank({.schedule = "interleaved", .pp = 2, .virtual_stages = 2, .recompute = Recompute::kFull});
  equals_one_rank({.schedule = "zb-h1", .pp = 2, .recompute = Recompute::kSelective});
}
TEST_P(Pipelines, WithDataAndTensorParallelism) {
  equals_one_rank({.pp = 2, .micro_batches = 2, .dp = 2});
  equals_one_rank({.pp = 2, .micro_batches = 2, .tp = 2, .recompute = Recompute::kSelective});
  equals_one_rank({.schedule = "zb-h1", .pp = 2, .micro_batches = 2, .dp = 2, .tp = 2});
  equals_one_rank({.schedule = "interleaved", .pp = 2, .virtual_stages = 2, .micro_batches = 2, .tp = 2});
}

TEST_P(Pipelines, WithZero) {
  for (const int stage : {1, 2, 3}) {
    equals_one_rank({.pp = 2, .micro_batches = 2, .dp = 2, .zero_stage = stage});
    equals_one_rank(
        {.schedule = "interleaved", .virtual_stages = 2, .micro_batches = 2, .dp = 2, .zero_stage = stage});
    equals_one_rank({.schedule = "zb-h1", .micro_batches = 2, .dp = 2, .tp = 2, .zero_stage = stage});
  }
  equals_one_rank({.pp = 2, .micro_batches = 2, .dp = 2, .recompute = Recompute::kFull, .zero_stage = 3});
}

// Executed instructions as (segment, micro-batch, id).
using Executed = std::vector<std::tuple<int, int, int>>;

// What a program says: begin, then what is waited for and run at each position of the timeline.
Executed compiled_list(const graph::Program& program) {
  Executed list;
  const graph::StageCode& code = *program.code;
  const auto add_segment = [&](const graph::Invocation& invocation) {
    const graph::Segment& segment = code.segments[static_cast<size_t>(invocation.segment)];
    for (const graph::Instruction& instruction : segment.instructions) {
      const graph::When when =
          code.chunks[static_cast<size_t>(segment.chunk)].nodes[static_cast<size_t>(instruction.node)].when;
      if (when == graph::When::kFirst && !invocation.first) continue;
      if (when == graph::When::kLast && !invocation.last) continue;
      list.emplace_back(invocation.segment, invocation.micro_batch, instruction.id);
    }
  };
  const auto add_awaited = [&](int position) {
    for (const graph::Transfer& transfer : program.transfers)
      if (transfer.wait == position) list.emplace_back(transfer.segment, transfer.micro_batch, transfer.id);
  };
  graph::Invocation begin{};
  begin.segment = program.begin_segment;
  if (begin.segment >= 0) add_segment(begin);
  for (size_t position = 0; position < program.timeline.size(); ++position) {
    add_awaited(static_cast<int>(position));
    add_segment(program.timeline[position]);
  }
  add_awaited(static_cast<int>(program.timeline.size()));
  return list;
}

TEST_P(Pipelines, ExecuteTheCompiledList) {
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1"}) {
    Training many = training(4);
    many.pp = 2;
    many.dp = 2;
    many.schedule = schedule;
    many.virtual_stages = many.schedule == "interleaved" ? 2 : 1;
    many.zero_stage = 1;
    many.steps = 1;
    std::array<Executed, 4> executed;
    std::array<graph::Program, 4> programs;
    many.before_step = [&](Executor& executor, int, int rank) {
      Executed& list = executed[static_cast<size_t>(rank)];
      programs[static_cast<size_t>(rank)] = executor.program();
      executor.set_observer([&list](const graph::Invocation& invocation,
                                    const graph::Instruction& instruction, int64_t, int64_t) {
        list.emplace_back(invocation.segment, invocation.micro_batch, instruction.id);
      });
    };
    ASSERT_EQ(train(many).error, "");
    for (size_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(executed[rank], compiled_list(programs[rank])) << schedule << " rank " << rank;
  }
}

// A value that is no number is found where it was made, on its rank, by all ranks replaying together; the
// step is skipped everywhere.
TEST_P(Pipelines, FindWhatIsNotFinite) {
  Training many = training(4);
  many.pp = 4;
  many.steps = 1;
  std::array<std::string, 4> found;
  many.before_step = [&](Executor& executor, int, int rank) {
    if (rank != 3) return;
    const TensorView mask = executor.input("loss_mask", 0);
    mask.as<float>()[0] = std::numeric_limits<float>::infinity();
  };
  many.after_step = [&](Executor& executor, State&, int, int rank) {
    auto replayed = executor.find_non_finite(0);
    ASSERT_TRUE(replayed);
    found[static_cast<size_t>(rank)] = replayed->where;
  };
  const Outcome outcome = train(many);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.applied, std::vector<double>{0});
  EXPECT_NE(found[3].find("head_loss"), std::string::npos) << found[3];
}

// One operation between embedding and head, each a stage of its own.
using Operations = Pipelines;
TEST_P(Operations, EachInAStageOfItsOwn) {
  equals_one_rank({.pp = 3});
  equals_one_rank({.schedule = "zb-h1", .pp = 3});
}
TEST_P(Operations, BesideTensorParallelism) { equals_one_rank({.pp = 2, .micro_batches = 2, .tp = 2}); }

// A value of the embedding that every layer and the head read too: it is passed on from stage to stage, and
// its gradients come back as one sum.
graph::Graph skipping(graph::BuildOptions options) {
  options.layers = 2;
  graph::Graph graph;
  graph::Builder builder(graph, options);
  const auto matrix = [&](const std::string& name, int64_t out, graph::AxisName rows) {
    return builder.parameter(
        {.name = name, .shape = {out, 16}, .axes = {rows, graph::AxisName::kEmbed}, .decay = true});
  };
  builder.layer(-1);
  const auto early = builder.embed(builder.tokens(), matrix("wte.weight", 30, graph::AxisName::kVocab));
  auto x = early;
  for (int layer = 0; layer < 2; ++layer) {
    builder.layer(layer);
    const auto y =
        builder.linear(x, matrix("h." + std::to_string(layer) + ".weight", 16, graph::AxisName::kNone));
    x = builder.add(builder.activation(y, graph::ActivationKind::kSilu), early);
  }
  builder.layer(2);
  builder.head(builder.add(x, early), matrix("head.weight", 30, graph::AxisName::kVocab));
  return graph;
}
using Skipping = Pipelines;
TEST_P(Skipping, IsPassedOn) {
  equals_one_rank({.pp = 2});
  equals_one_rank({.pp = 4});
  equals_one_rank({.schedule = "interleaved", .virtual_stages = 2});
  equals_one_rank({.schedule = "zb-h1", .pp = 4, .micro_batches = 6});
}

// Four layers: enough for six chunks with the embedding and the head.
NamedModel four_layers(std::string name, graph::TinyModel tiny) {
  tiny.layers = 4;
  return {std::move(name), [tiny](const graph::BuildOptions& options) { return tiny.build(options); },
          static_cast<int>(tiny.kv_heads)};
}

const auto kName = [](const auto& model) { return model.param.name; };
INSTANTIATE_TEST_SUITE_P(
    Family, Pipelines,
    ::testing::Values(four_layers("gpt2_tied", {.kv_heads = 4, .gpt2 = true, .tied = true, .dropout = 0.2}),
                      four_layers("llama_grouped", {.kv_heads = 2})),
    kName);

INSTANTIATE_TEST_SUITE_P(Operation, Operations, ::testing::ValuesIn(operation_models()), kName);
INSTANTIATE_TEST_SUITE_P(Skip, Skipping, ::testing::Values(NamedModel{"skipping", skipping, 2}), kName);

}  // namespace
}  // namespace ingot::runtime
