#include "graph/builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops.h"
#include "graph/tiny_model_for_tests.h"

namespace ingot::graph {
namespace {

std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.emplace_back(info(node.op).name);
  return names;
}

TEST(Builder, TrainingGraphOfOneLayer) {
  const Graph graph = TinyModel{.layers = 1}.build({.batch = 2, .sequence = 8});
  EXPECT_EQ(op_names(graph),
            (std::vector<std::string>{"embed", "norm", "linear", "linear", "linear", "rotary", "rotary",
                                      "attention", "linear", "add", "norm", "linear", "linear", "activation",
                                      "linear", "add", "norm", "head_loss"}));
  EXPECT_NE(graph.find_value("h.0.attn.q"), kNoValue);
  EXPECT_NE(graph.find_value("h.0.add.2"), kNoValue);
  EXPECT_NE(graph.find_value("h.0.attention.lse"), kNoValue);
  EXPECT_EQ(graph.value(graph.find_value("batch.tokens")).role, Role::kData);
  EXPECT_EQ(graph.value(graph.find_value("batch.tokens")).stored, (Shape{2, 8}));
  EXPECT_EQ(graph.value(graph.find_value("control.sums")).dtype, DType::kF64);
  EXPECT_EQ(graph.nodes.front().layer, -1);
  EXPECT_EQ(graph.nodes.back().layer, 1);
}

TEST(Builder, DropoutHasASiteOfItsOwnAndOnlyInTraining) {
  const TinyModel model{.dropout = 0.1};
  std::vector<uint64_t> sites;
  const Graph train = model.build({.batch = 1, .sequence = 4});
  for (const Node& node : train.nodes)
    if (node.op == Op::kDropout) sites.push_back(node.attributes.site);
  EXPECT_EQ(sites, (std::vector<uint64_t>{0, 1, 2, 3}));
  for (const Purpose purpose : {Purpose::kEvaluate, Purpose::kDecode}) {
    const Graph graph = model.build({.purpose = purpose, .batch = 1, .sequence = 4, .cache = 8});
    EXPECT_EQ(std::ranges::count(graph.nodes, Op::kDropout, &Node::op), 0);
    EXPECT_EQ(graph.find_value("batch.sample"), kNoValue);
  }
}

TEST(Builder, DecodingKeepsCachesAndEndsInLogits) {
  const Graph graph =
      TinyModel{}.build({.purpose = Purpose::kDecode, .batch = 3, .sequence = 1, .cache = 32});
  const Value& cache = graph.value(graph.find_value("cache.k.1"));
  EXPECT_EQ(cache.stored, (Shape{3, 32, 8}));
  EXPECT_EQ(cache.role, Role::kState);
  EXPECT_EQ(graph.value(graph.find_value("logits")).stored, (Shape{3, 1, 30}));
  EXPECT_EQ(graph.find_value("batch.labels"), kNoValue);
  EXPECT_EQ(std::ranges::count(graph.nodes, Op::kAttentionCached, &Node::op), 2);
}

TEST(Builder, ATiedTableIsOneParameter) {
  const Graph graph = TinyModel{.tied = true}.build({.batch = 1, .sequence = 4});
  EXPECT_TRUE(graph.parameters[0].tied);
  EXPECT_EQ(graph.nodes.front().inputs[1], graph.nodes.back().inputs[1]);
}

}  // namespace
}  // namespace ingot::graph
