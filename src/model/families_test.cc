#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cost/flops.h"
#include "model/model.h"
#include "model/vectors_for_tests.h"

namespace ingot::model {
namespace {

graph::Graph graph_of(const spec::ModelSpec& spec, int64_t sequence = 8) {
  return build_graph(spec, {.batch = 1, .sequence = sequence}).value();
}

const graph::Parameter& parameter(const graph::Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.parameters, name, &graph::Parameter::name);
  EXPECT_NE(found, graph.parameters.end()) << name;
  return *found;
}

TEST(Families, ParameterCountsAreThePublishedOnes) {
  for (const PublishedModel& model : published_models()) {
    EXPECT_EQ(parameter_count(graph_of(model.spec)), model.parameters) << model.name;
    EXPECT_EQ(cost::count_parameters(model.spec).total, model.parameters) << model.name;
  }
}

TEST(Families, CountsAgreeWithTheFormulaForEveryOption) {
  for (const Family& family : all_families()) {
    for (int options = 0; options < 8; ++options) {
      spec::ModelSpec spec = spec::default_model(std::string(family.name));
      spec.num_layers = 3;
      spec.hidden_size = 48;
      spec.num_heads = 6;
      spec.num_kv_heads = family.name == "gpt2" ? 6 : 2;
      spec.vocab_size = 101;
      spec.max_positions = 16;
      spec.bias = (options & 1) != 0;
      spec.tie_word_embeddings = (options & 2) != 0;
      spec.qkv_bias = family.name == "llama" && (options & 4) != 0;
      const graph::Graph graph = graph_of(spec);
      const cost::ParameterCounts counts = cost::count_parameters(spec);
      EXPECT_EQ(parameter_count(graph), counts.total) << family.name << " " << options;
      int64_t matmul = 0;
      std::set<graph::ValueId> weights;
      for (const graph::Node& node : graph.nodes)
        if ((node.op == graph::Op::kLinear || node.op == graph::Op::kHeadLoss) &&
            weights.insert(node.inputs[1]).second)
          matmul += graph.value(node.inputs[1]).logical.elements();
      EXPECT_EQ(matmul, counts.matmul) << family.name << " " << options;
    }
  }
}

TEST(Families, Gpt2NamesThePartsOfConv1D) {
  const graph::Graph graph = graph_of(gpt2_spec(2, 32, 4, 61, 16));
  const auto& k = parameter(graph, "h.1.attn.k.weight");
  EXPECT_EQ(k.hugging_face.tensor, "transformer.h.1.attn.c_attn.weight");
  EXPECT_TRUE(k.hugging_face.transposed);
  EXPECT_EQ(k.hugging_face.row, 32);
  EXPECT_EQ(k.hugging_face.rows, 96);
  const auto& bias = parameter(graph, "h.1.attn.v.bias");
  EXPECT_EQ(bias.hugging_face.tensor, "transformer.h.1.attn.c_attn.bias");
  EXPECT_FALSE(bias.hugging_face.transposed);
  EXPECT_EQ(bias.hugging_face.row, 64);
  EXPECT_EQ(parameter(graph, "h.0.mlp.down.weight").hugging_face.tensor, "transformer.h.0.mlp.c_proj.weight");
  EXPECT_TRUE(parameter(graph, "wte.weight").tied);
  EXPECT_FALSE(parameter(graph, "wte.weight").hugging_face.transposed);
}

// Every row of every tensor of theirs is covered exactly once.
TEST(Families, HuggingFaceTensorsAreCoveredOnce) {
  spec::ModelSpec qwen = llama_spec(2, 32, 4, 2, 48, 61);
  qwen.qkv_bias = true;
  for (const spec::ModelSpec& spec : {gpt2_spec(2, 32, 4, 61, 16), qwen}) {
    std::map<std::string, std::set<int64_t>> rows;
    std::map<std::string, int64_t> extent;
    for (const graph::Parameter& p : graph_of(spec).parameters) {
      const auto& name = p.hugging_face;
      for (int64_t row = 0; row < p.logical[0]; ++row)
        EXPECT_TRUE(rows[name.tensor].insert(name.row + row).second) << p.name;
      extent[name.tensor] = name.rows == 0 ? p.logical[0] : name.rows;
    }
    for (const auto& [tensor, seen] : rows) {
      EXPECT_EQ(static_cast<int64_t>(seen.size()), extent[tensor]) << tensor;
      EXPECT_EQ(*seen.rbegin(), extent[tensor] - 1) << tensor;
    }
  }
}

TEST(Families, WeightDecayIsForMatricesAndEmbeddings) {
  for (const spec::ModelSpec& spec : {gpt2_spec(2, 32, 4, 61, 16), llama_spec(2, 32, 4, 2, 48, 61)})
    for (const graph::Parameter& p : graph_of(spec).parameters)
      EXPECT_EQ(p.decay, p.logical.rank() == 2) << p.name;
}

TEST(Families, Gpt2ResidualProjectionsStartSmaller) {
  const graph::Graph graph = graph_of(gpt2_spec(8, 32, 4, 61, 16));
  EXPECT_DOUBLE_EQ(parameter(graph, "h.3.attn.o.weight").init.stddev, 0.02 / 4);
  EXPECT_DOUBLE_EQ(parameter(graph, "h.3.mlp.down.weight").init.stddev, 0.02 / 4);
  EXPECT_DOUBLE_EQ(parameter(graph, "h.3.mlp.up.weight").init.stddev, 0.02);
  const graph::Graph llama = graph_of(llama_spec(8, 32, 4, 2, 48, 61));
  EXPECT_DOUBLE_EQ(parameter(llama, "h.3.mlp.down.weight").init.stddev, 0.02);
}

TEST(Families, DropoutSitesAreNumberedAcrossTheModel) {
  spec::ModelSpec spec = gpt2_spec(2, 32, 4, 61, 16);
  spec.dropout = spec.embedding_dropout = 0.1;
  std::vector<uint64_t> sites;
  for (const graph::Node& node : graph_of(spec).nodes)
    if (node.op == graph::Op::kDropout) sites.push_back(node.attributes.site);
  EXPECT_EQ(sites, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
}

TEST(Families, MistakesAreNamed) {
  spec::ModelSpec spec = gpt2_spec(2, 32, 4, 61, 16);
  EXPECT_EQ(
      build_graph(spec, {.batch = 1, .sequence = 17}).error().message,
      "a sequence of 17 tokens does not fit the 16 positions of the model; shorten data.seq_len or raise "
      "model.max_positions");
  spec.family = "gtp2";
  EXPECT_EQ(build_graph(spec, {}).error().message,
            "model.family \"gtp2\" is not known; did you mean \"gpt2\"?");
  spec.family = "bert";
  EXPECT_EQ(build_graph(spec, {}).error().message,
            "model.family \"bert\" is not known; choose from gpt2, llama");
  spec = llama_spec(2, 32, 4, 3, 48, 61);
  EXPECT_EQ(build_graph(spec, {}).error().message,
            "model.num_kv_heads is 3, which does not divide the 4 heads");
  spec.vocab_size = 0;
  EXPECT_EQ(build_graph(spec, {}).error().message, "model.vocab_size is 0; it must be at least 1");
}

}  // namespace
}  // namespace ingot::model
