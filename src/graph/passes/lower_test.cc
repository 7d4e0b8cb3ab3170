// What context parallelism sends and computes, counted from compiled programs.
#include <gtest/gtest.h>

#include "graph/ops.h"
#include "graph/passes/passes.h"
#include "graph/targets/targets.h"
#include "graph/tiny_model_for_tests.h"

namespace ingot::graph {
namespace {

constexpr int64_t kBatch = 2, kSequence = 48;

Program compiled(const TinyModel& model, int cp, ContextMode mode, Precision precision,
                 Purpose purpose = Purpose::kTrain) {
  CompileOptions options;
  options.targets = {&reference_target()};
  options.precision = precision;
  options.purpose = purpose;
  options.layout.mesh = make_mesh(1, 1, 1, cp, 1, static_cast<int>(model.kv_heads)).value();
  options.layout.context_mode = mode;
  options.layout.micro_batches = 3;
  return compile(model.build({.purpose = purpose, .batch = kBatch, .sequence = kSequence}), options).value();
}

struct Counted {
  double sent_bytes = 0, attention_flops = 0;
};

// Of one micro-batch: forward and backward, but not the reductions of gradients.
Counted count(const Program& program) {
  Counted counted;
  for (const Segment& segment : program.code->segments) {
    if (segment.phase == Phase::kBegin || segment.phase == Phase::kFinish) continue;
    const Graph& graph = program.code->chunks[static_cast<size_t>(segment.chunk)];
    for (const Instruction& instruction : segment.instructions) {
      const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
      const OpCost cost = info(node.op).cost(graph, node);
      if (node.attributes.group == kCpMask && node.stream != Stream::kDp)
        counted.sent_bytes += cost.sent_bytes;
      if (node.op == Op::kAttention || node.op == Op::kAttentionGrad) counted.attention_flops += cost.flops;
    }
  }
  return counted;
}

class ContextBytes : public ::testing::TestWithParam<int> {
 protected:
  // Of one rank's keys and values of one layer, and of the positions that go with them.
  static double keys_and_values(const TinyModel& model, int64_t element) {
    const int64_t width = model.kv_heads * (model.hidden / model.heads);
    return static_cast<double>(2 * kBatch * kSequence / GetParam() * width * element);
  }
  static double positions() { return static_cast<double>(kBatch * kSequence / GetParam() * 4); }
};

TEST_P(ContextBytes, OfTheRing) {
  const TinyModel model;
  const double hops = GetParam() - 1, layers = model.layers;
  for (const auto& [precision, element] : {std::pair{Precision::kF32, 4}, {Precision::kBF16, 2}}) {
    const Counted counted = count(compiled(model, GetParam(), ContextMode::kRing, precision));
    // Keys and values go round twice, their gradients once and home; gradients in float32.
    const double layer = 2 * hops * keys_and_values(model, element) + (hops + 1) * keys_and_values(model, 4);
    EXPECT_EQ(counted.sent_bytes, layers * layer + hops * positions()) << name_of(precision);
  }
  const Counted forward =
      count(compiled(model, GetParam(), ContextMode::kRing, Precision::kF32, Purpose::kEvaluate));
  EXPECT_EQ(forward.sent_bytes, layers * hops * keys_and_values(model, 4) + hops * positions());
}

TEST_P(ContextBytes, OfGatheredKeysAndValues) {
  const TinyModel model;
  const double hops = GetParam() - 1, layers = model.layers;
  const Counted counted = count(compiled(model, GetParam(), ContextMode::kGather, Precision::kF32));
  EXPECT_EQ(counted.sent_bytes, layers * 2 * hops * keys_and_values(model, 4) + hops * positions());
}

TEST_P(ContextBytes, EveryRankHasItsShareOfTheWork) {
  const double whole = count(compiled(TinyModel{}, 1, ContextMode::kRing, Precision::kF32)).attention_flops;
  for (const ContextMode mode : {ContextMode::kRing, ContextMode::kGather})
    EXPECT_DOUBLE_EQ(count(compiled(TinyModel{}, GetParam(), mode, Precision::kF32)).attention_flops,
                     whole / GetParam());
}

// A rank holds one block of keys and values beside its own, and the next one that is on its way.
TEST_P(ContextBytes, TheRingKeepsNoKeysOfOthersForTheBackward) {
  const TinyModel model;
  const auto slot_bytes = [&](int cp, ContextMode mode) {
    return compiled(model, cp, mode, Precision::kF32)
        .pools[static_cast<size_t>(Space::kForwardBackward) - kFirstSlotSpace]
        .slot_bytes;
  };
  const int64_t ring = slot_bytes(GetParam(), ContextMode::kRing),
                gather = slot_bytes(GetParam(), ContextMode::kGather),
                one = slot_bytes(1, ContextMode::kRing);
  EXPECT_LE(ring, one / GetParam() + one / 8);
  EXPECT_GT(gather, ring);
}

INSTANTIATE_TEST_SUITE_P(Cp, ContextBytes, ::testing::Values(2, 3, 4));

TEST(Context, DecodingIsTheSameOnEveryRank) {
  const TinyModel model;
  CompileOptions options;
  options.targets = {&reference_target()};
  options.purpose = Purpose::kDecode;
  options.layout.mesh = make_mesh(1, 1, 1, 2, 1, 2).value();
  const Program program =
      compile(model.build({.purpose = Purpose::kDecode, .batch = 1, .sequence = 1, .cache = 8}), options)
          .value();
  EXPECT_EQ(step_totals(program).sent_bytes, 0);
}

}  // namespace
}  // namespace ingot::graph
