// What ZeRO moves and saves, counted from programs, against the formulas: with P the parameters' bytes, n
// ranks and m micro-batches, a rank sends per step by a ring, in units of (n - 1)/n,
//   stage 0: 2 P     stage 1: P + P     stage 2: m P + P     stage 3: m (P + P + P')
// reduce-scatters first, then gathers; P' is what the backward reads. It holds P (1 + 1 + 2) in floats, of
// which the moments, then the gradients, then the parameters are divided by n.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "graph/compile.h"
#include "graph/ops.h"
#include "graph/passes/draft.h"
#include "graph/targets/targets.h"
#include "graph/test_models.h"

namespace ingot::graph {
namespace {

struct Case {
  int stage = 0, dp = 4, group = 0, micro_batches = 3;
  Recompute recompute = Recompute::kNone;
};

Program compiled(const Case& shape, const Target& target = reference_target(),
                 Precision precision = Precision::kF32) {
  TestModel model;
  model.llama = true;
  model.tied = false;
  model.layers = 4;
  model.channels = 32;
  model.ffn = 64;
  CompileOptions options;
  options.targets = {&target};
  options.precision = precision;
  options.layout.mesh = make_mesh(shape.dp, 1, 1, 1, 1, 2, shape.group).value();
  options.layout.zero_stage = shape.stage;
  options.layout.micro_batches = shape.micro_batches;
  options.recompute = shape.recompute;
  Result<Program> program = compile(build_test_model(model), options);
  INGOT_CHECK(program.has_value(), "{}", program.error().message);
  return std::move(program).value();
}

// Bytes of parameters: all, and without the embedding and the output head, which the backward does not read.
struct Sizes {
  double all = 0, backward = 0;
};
Sizes sizes_of(const Program& program) {
  Sizes sizes;
  for (const Bucket& bucket : program.code->buckets) {
    const auto bytes = static_cast<double>(bucket.elements * 4);
    const bool end = bucket.decay && (bucket.layer < 0 || bucket.layer == 4);
    sizes.all += bytes;
    sizes.backward += end ? 0 : bytes;
  }
  return sizes;
}

// The control sums of the world, once a step.
double control_bytes(int ranks) { return 2.0 * (ranks - 1) / ranks * kControlBlock * 8; }

TEST(Zero, VolumesEqualTheory) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    for (const int n : {2, 4}) {
      for (const int m : {1, 3}) {
        for (int stage = 0; stage <= 3; ++stage) {
          const Program program = compiled({stage, n, 0, m, recompute});
          const auto [all, backward] = sizes_of(program);
          const double share = (n - 1.0) / n;
          const double expected[] = {2 * all, all + all, m * all + all, m * (all + all + backward)};
          EXPECT_NEAR(step_totals(program).sent_bytes, share * expected[stage] + control_bytes(n), 1e-6)
              << "stage " << stage << ", " << n << " ranks, " << m << " micro-batches";
        }
      }
    }
  }
}

// Shards inside groups of g of n ranks: reductions over the n/g replicas move shards, once a step.
TEST(Zero, VolumesOfGroupsEqualTheory) {
  constexpr int n = 8, g = 2, m = 3;
  for (int stage = 1; stage <= 3; ++stage) {
    const Program program = compiled({stage, n, g, m});
    const auto [all, backward] = sizes_of(program);
    constexpr double kShare = (g - 1.0) / g, kReplicas = n / g;
    const double inside[] = {0, all + all, m * all + all, m * (all + all + backward)};
    const double between = 2 * (kReplicas - 1) / kReplicas * all / g;
    EXPECT_NEAR(step_totals(program).sent_bytes, kShare * inside[stage] + between + control_bytes(n), 1e-6)
        << stage;
  }
}

TEST(Zero, MemoryIsWhatTheFormulasSay) {
  for (const int n : {2, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const Program program = compiled({stage, n});
      const auto whole = static_cast<int64_t>(sizes_of(program).all);
      const auto held = [&](int first_stage) { return stage >= first_stage ? whole / n : whole; };
      const int64_t control = kControlBlock * 8;
      EXPECT_EQ(program.memory.state, held(3) + 2 * held(1) + control) << stage;
      EXPECT_EQ(program.memory.step, held(2) + control) << stage;
    }
  }
}

// A parameter's gathered bucket is there for its layer and the one before, whatever their number.
TEST(Zero, TwoLayersParametersAreGatheredAtATime) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const Program program = compiled({.stage = 3, .recompute = recompute});
    for (const Segment& segment : program.code->segments) {
      const Graph& graph = program.code->chunks[static_cast<size_t>(segment.chunk)];
      std::map<ValueId, std::pair<int, int>> lives;  // of gathered values: issued and last read
      std::map<ValueId, int> layers;
      for (int k = 0; k < static_cast<int>(segment.instructions.size()); ++k) {
        const Node& node =
            graph.nodes[static_cast<size_t>(segment.instructions[static_cast<size_t>(k)].node)];
        if (node.op == Op::kAllGather && node.stream == Stream::kDp && segment.phase != Phase::kFinish) {
          lives[node.outputs[0]] = {k, k};
          layers[node.outputs[0]] = node.layer;
          continue;
        }
        for (const ValueId id : node.inputs)
          if (const auto found = lives.find(root_of(graph, id).value); found != lives.end())
            found->second.second = k;
      }
      for (size_t k = 0; k < segment.instructions.size(); ++k) {
        std::set<int> there;
        for (const auto& [value, life] : lives)
          if (life.first <= static_cast<int>(k) && static_cast<int>(k) <= life.second)
            there.insert(layers.at(value));
        EXPECT_LE(there.size(), 2U) << name_of(segment.phase) << " " << k;
      }
    }
  }
}

// Copies of gathered weights are made where they are gathered: nothing is derived but what stage 2 derives
// not either, and what a packed product reads is packed in its own phase.
TEST(Zero, CopiesStayBehindTheGather) {
  const Program shared = compiled({.stage = 3}, cpu_target(), Precision::kBF16);
  EXPECT_EQ(shared.memory.derived, 0);
  EXPECT_EQ(shared.begin_segment, -1);
  EXPECT_GT(compiled({.stage = 2}, cpu_target(), Precision::kBF16).memory.derived, 0);
  for (const Segment& segment : shared.code->segments) {
    const Graph& graph = shared.code->chunks[static_cast<size_t>(segment.chunk)];
    std::set<ValueId> made;
    for (const Instruction& instruction : segment.instructions) {
      const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
      if (node.op == Op::kLinear || node.op == Op::kLinearDx) {
        EXPECT_TRUE(made.contains(node.inputs[1])) << graph.value(node.inputs[1]).name;
      }
      if (node.op == Op::kPack) made.insert(node.outputs[0]);
      EXPECT_NE(node.op, Op::kCast) << graph.value(node.outputs[0]).name << " is a copy that nobody reads";
    }
  }
}

TEST(Zero, BucketsAreCutAtTheirLargestSize) {
  CompileOptions options;
  options.targets = {&reference_target()};
  options.layout.mesh = make_mesh(2, 1, 1, 1, 1, 2).value();
  for (const int64_t bytes : {int64_t{1} << 30, int64_t{1} << 11, int64_t{1}}) {
    options.layout.bucket_bytes = bytes;
    const Program program = compile(build_test_model({}), options).value();
    std::vector<int> seen(program.code->chunks.front().parameters.size(), 0);
    for (const Bucket& bucket : program.code->buckets) {
      EXPECT_TRUE(bucket.elements * 4 <= bytes || bucket.parameters.size() == 1) << bucket.id;
      for (const int parameter : bucket.parameters) ++seen[static_cast<size_t>(parameter)];
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    if (bytes == 1) {
      EXPECT_EQ(program.code->buckets.size(), seen.size());
    }
  }
}

}  // namespace
}  // namespace ingot::graph
