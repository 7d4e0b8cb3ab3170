#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops.h"
#include "graph/passes/passes.h"
#include "graph/tiny_model_for_tests.h"

namespace ingot::graph {
namespace {

Graph partitioned(const TinyModel& model, int tp, BuildOptions options, bool gradient = true) {
  const Mesh mesh = make_mesh(1, tp, 1, 1, 1, static_cast<int>(model.kv_heads)).value();
  return partition_pass(precision_pass(model.build(options), Precision::kF64, std::nullopt), mesh, gradient)
      .value();
}

int64_t count(const Graph& graph, Op op) { return std::ranges::count(graph.nodes, op, &Node::op); }

const Parameter& parameter(const Graph& graph, const std::string& name) {
  return *std::ranges::find(graph.parameters, name, &Parameter::name);
}

const Value& value(const Graph& graph, const std::string& name) {
  const ValueId id = graph.find_value(name);
  EXPECT_NE(id, kNoValue) << name;
  return graph.value(id);
}

Place place(const Value& value, Axis axis) { return value.places[static_cast<size_t>(axis)]; }

constexpr AxisMask kReplicaMask = mask_of(Axis::kKvReplica);

TEST(Partition, OneRankChangesNothing) {
  const TinyModel model{.gpt2 = true, .dropout = 0.1};
  const Graph before = model.build({.batch = 2, .sequence = 8});
  const Graph after = partitioned(model, 1, {.batch = 2, .sequence = 8});
  ASSERT_EQ(after.nodes.size(), before.nodes.size());
  for (size_t i = 0; i < after.nodes.size(); ++i) {
    EXPECT_EQ(after.nodes[i].op, before.nodes[i].op);
    EXPECT_EQ(after.nodes[i].attributes, before.nodes[i].attributes);
  }
  for (const Parameter& p : after.parameters) EXPECT_EQ(p.partial, 0) << p.name;
}

TEST(Partition, SequenceParallelLlama) {
  const Graph graph = partitioned(TinyModel{}, 2, {.batch = 2, .sequence = 8});
  // Per layer: two gathers in, two scatters out; the embedding's scatter; the head's gather and its
  // statistics.
  EXPECT_EQ(count(graph, Op::kAllGather), 2 * 2 + 2);
  EXPECT_EQ(count(graph, Op::kReduceScatter), 2 * 2 + 1);
  EXPECT_EQ(count(graph, Op::kAllReduce) + count(graph, Op::kSlice) + count(graph, Op::kBroadcastGrad), 0);
  EXPECT_EQ(value(graph, "h.0.add").stored, (Shape{2, 4, 16}));
  EXPECT_EQ(value(graph, "h.0.add").logical, (Shape{2, 8, 16}));
  EXPECT_EQ(value(graph, "h.0.attn.q").stored, (Shape{2, 8, 8}));
  EXPECT_EQ(place(value(graph, "h.0.attn.q"), Axis::kKv), (Place{Placement::kSharded, 2}));
  EXPECT_EQ(value(graph, "h.0.attention.lse").stored, (Shape{2, 8, 2}));
  EXPECT_EQ(value(graph, "h.0.swiglu").stored, (Shape{2, 8, 12}));
  EXPECT_EQ(parameter(graph, "h.0.attn.o.weight").stored, (Shape{16, 8}));
  EXPECT_EQ(parameter(graph, "h.0.ln_1.weight").partial, mask_of(Axis::kKv));
  EXPECT_EQ(parameter(graph, "h.0.attn.q.weight").partial, 0);
  const Node& loss = graph.nodes.back();
  EXPECT_EQ(loss.op, Op::kHeadLoss);
  EXPECT_EQ(loss.inputs.size(), 6U);
  EXPECT_EQ(graph.value(loss.inputs[5]).stored, (Shape{2, 8, 6}));
  EXPECT_EQ(loss.attributes.weight, 0.5);
}

TEST(Partition, AllReduceWhereTheSequenceDoesNotDivide) {
  const Graph graph = partitioned(TinyModel{}, 2, {.batch = 2, .sequence = 7});
  EXPECT_EQ(count(graph, Op::kAllReduce), 2 * 2 + 1);
  EXPECT_EQ(count(graph, Op::kBroadcastGrad),
            2 * 2 + 1);  // q, k and v share one, gate and up one, the head one
  EXPECT_EQ(count(graph, Op::kReduceScatter), 0);
  EXPECT_EQ(count(graph, Op::kAllGather), 1);  // of the statistics
  EXPECT_EQ(parameter(graph, "h.0.ln_1.weight").partial, 0);
}

TEST(Partition, KeyValueHeadsAreSharedWhereTpExceedsThem) {
  const Graph graph = partitioned(TinyModel{}, 4, {.batch = 1, .sequence = 8});
  EXPECT_EQ(parameter(graph, "h.0.attn.k.weight").stored, (Shape{4, 16}));
  EXPECT_EQ(parameter(graph, "h.0.attn.k.weight").partial, kReplicaMask);
  EXPECT_EQ(parameter(graph, "h.0.attn.q.weight").stored, (Shape{4, 16}));
  EXPECT_EQ(parameter(graph, "h.0.attn.q.weight").partial, 0);
  EXPECT_EQ(value(graph, "h.0.attn.k").stored, (Shape{1, 8, 4}));
  EXPECT_EQ(place(value(graph, "h.0.attn.k"), Axis::kKvReplica).kind, Placement::kBroadcast);
  EXPECT_EQ(parameter(graph, "h.0.ln_1.weight").partial, kTpMask);
}

TEST(Partition, Gpt2BiasesAndPositions) {
  const TinyModel model{.kv_heads = 4, .gpt2 = true, .tied = true, .dropout = 0.1};
  const Graph graph = partitioned(model, 2, {.batch = 2, .sequence = 8});
  EXPECT_EQ(parameter(graph, "h.0.attn.q.bias").stored, (Shape{8}));
  EXPECT_EQ(parameter(graph, "h.0.attn.o.bias").stored, (Shape{16}));
  EXPECT_EQ(parameter(graph, "h.0.attn.o.bias").partial, 0);  // its gradient is read from the whole sequence
  EXPECT_EQ(parameter(graph, "h.0.ln_1.bias").partial, mask_of(Axis::kKv));
  EXPECT_EQ(parameter(graph, "wpe.weight").partial, mask_of(Axis::kKv));
  EXPECT_EQ(count(graph, Op::kSlice), 1);  // positions, cut once for the table and every dropout
  EXPECT_EQ(count(graph, Op::kCast), 4);   // each row-parallel bias is shared out
  for (const Node& node : graph.nodes)
    if (node.op == Op::kCast) {
      EXPECT_EQ(node.attributes.scale, 0.5);
    }
  EXPECT_EQ(parameter(graph, "wte.weight").stored, (Shape{15, 16}));
}

TEST(Partition, VocabularyIsPadded) {
  const Graph graph = partitioned(TinyModel{.vocabulary = 29}, 2, {.batch = 1, .sequence = 8});
  EXPECT_EQ(parameter(graph, "wte.weight").stored, (Shape{15, 16}));
  EXPECT_EQ(parameter(graph, "wte.weight").logical, (Shape{29, 16}));
  EXPECT_EQ(graph.nodes.back().attributes.vocabulary, 29);
}

TEST(Partition, DecodingGathersLogitsAndCutsCaches) {
  const BuildOptions options{.purpose = Purpose::kDecode, .batch = 3, .sequence = 1, .cache = 16};
  const Graph graph = partitioned(TinyModel{.vocabulary = 29}, 2, options, false);
  EXPECT_EQ(value(graph, "cache.k.0").stored, (Shape{3, 16, 4}));
  EXPECT_EQ(value(graph, "cache.k.0").logical, (Shape{3, 16, 8}));
  EXPECT_EQ(value(graph, "logits.part").stored, (Shape{3, 1, 15}));
  EXPECT_EQ(value(graph, "logits").stored, (Shape{3, 1, 30}));
  EXPECT_EQ(value(graph, "logits").logical, (Shape{3, 1, 29}));
  EXPECT_EQ(count(graph, Op::kBroadcastGrad), 0);
}

TEST(Partition, RefusesWithTheNearestSizes) {
  const auto refuse = [](const TinyModel& model, const Mesh& mesh) {
    return partition_pass(model.build({.batch = 1, .sequence = 6}), mesh, true).error().message;
  };
  const TinyModel model{.hidden = 24, .heads = 6, .kv_heads = 6, .ffn = 20};
  EXPECT_EQ(refuse(model, make_mesh(1, 3, 1, 1, 1, 6).value()),
            "parallel.tp is 3, which does not divide the 20 feed-forward units of h.0.mlp.up.weight; use 2");
  EXPECT_EQ(refuse(TinyModel{.kv_heads = 1, .ffn = 24}, make_mesh(1, 3, 1, 1, 1, 1).value()),
            "parallel.tp is 3, which does not divide the 4 heads of h.0.attn.q.weight; use 2 or 4");
  EXPECT_EQ(refuse(model, make_mesh(1, 1, 1, 2, 1, 6).value()),
            "a sequence of 6 tokens does not divide in the 4 parts that parallel.cp = 2 needs; use a "
            "data.seq_len of "
            "4 or 8");
  EXPECT_EQ(refuse(model, make_mesh(2, 1, 1, 1, 2, 6).value()),
            "parallel.ep is 2, and the model has no experts to share out; use 1");
}

}  // namespace
}  // namespace ingot::graph
