#include "cost/flops.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ingot::cost {
namespace {

spec::ModelSpec gpt2(int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary, int64_t positions) {
  spec::ModelSpec model = spec::default_model("gpt2");
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.num_heads = heads;
  model.vocab_size = vocabulary;
  model.max_positions = positions;
  return model;
}

spec::ModelSpec llama3_8b() {
  spec::ModelSpec model = spec::default_model("llama");
  model.num_layers = 32;
  model.hidden_size = 4096;
  model.num_heads = 32;
  model.num_kv_heads = 8;
  model.intermediate_size = 14336;
  model.vocab_size = 128256;
  return model;
}

// An MPT of llm-foundry, counted as GPT-2 with its vocabulary.
spec::ModelSpec mpt(int64_t layers, int64_t hidden, int64_t heads, int64_t positions) {
  return gpt2(layers, hidden, heads, 50368, positions);
}

// MFLOP per token, to two digits, by the formulas that the engines publish in their sources.
TEST(Flops, Gpt2SmallByEveryConvention) {
  const spec::ModelSpec model = gpt2(12, 768, 12, 50304, 1024);
  const auto mflop = [&](FlopConvention convention) {
    return std::round(flops_per_token(model, 1024, convention) / 1e4) / 100;
  };
  EXPECT_EQ(mflop(FlopConvention::kMfu), 854.65);
  EXPECT_EQ(mflop(FlopConvention::kMfuCausal), 798.03);
  EXPECT_EQ(mflop(FlopConvention::kNanoGpt), 855.38);
  EXPECT_EQ(mflop(FlopConvention::kLlmC), 803.48);
  EXPECT_EQ(mflop(FlopConvention::kTorchtitan), 860.10);
  EXPECT_EQ(mflop(FlopConvention::kMosaic), 860.10);
  EXPECT_EQ(mflop(FlopConvention::kLevanter), 855.98);
  EXPECT_EQ(
      std::round(flops_per_token(gpt2(12, 768, 12, 50257, 1024), 1024, FlopConvention::kNanoGpt) / 1e4) / 100,
      855.17);
}

// Nanotron counts what we count, all of attention: the same as mfu.
TEST(Flops, NanotronOfAnUntiedLlamaIsMfu) {
  EXPECT_EQ(flops_per_token(llama3_8b(), 8192, FlopConvention::kNanotron),
            flops_per_token(llama3_8b(), 8192, FlopConvention::kMfu));
}

double mfu_percent(const spec::ModelSpec& model, int64_t seq_len, FlopConvention convention,
                   double tokens_per_second, double peak) {
  return 100 * flops_per_token(model, seq_len, convention) * tokens_per_second / peak;
}

// Published rates and percentages of llm-foundry, T 2048; its tables round to two digits.
TEST(Flops, MosaicPercentagesOfMpt) {
  const spec::ModelSpec m125 = mpt(12, 768, 12, 2048), m350 = mpt(24, 1024, 16, 2048),
                        m7b = mpt(32, 4096, 32, 2048);
  EXPECT_EQ(count_parameters(m125).total, 125'311'488);
  EXPECT_EQ(count_parameters(m350).total, 355'985'408);
  EXPECT_EQ(count_parameters(m7b).total, 6'658'859'008);
  EXPECT_NEAR(mfu_percent(m125, 2048, FlopConvention::kMosaic, 142'830, 312e12), 44.79, 0.005);
  EXPECT_NEAR(mfu_percent(m350, 2048, FlopConvention::kMosaic, 58'782, 312e12), 51.62, 0.005);
  EXPECT_NEAR(mfu_percent(m7b, 2048, FlopConvention::kMosaic, 4'641, 312e12), 64.22, 0.005);
  EXPECT_NEAR(mfu_percent(m7b, 2048, FlopConvention::kMosaic, 10'643, 989e12), 46.46, 0.005);
}

TEST(Flops, TorchtitanPercentagesOfLlama8B) {
  EXPECT_NEAR(mfu_percent(llama3_8b(), 8192, FlopConvention::kTorchtitan, 5'762, 989e12), 33.7, 0.05);
  EXPECT_NEAR(mfu_percent(llama3_8b(), 8192, FlopConvention::kTorchtitan, 6'667, 989e12), 39.0, 0.05);
}

TEST(Flops, LlmCPercentagesOfSmallOnEightDevices) {
  const double rate = 524'288 / 0.140 / 8;
  const spec::ModelSpec model = gpt2(12, 768, 12, 50304, 1024);
  EXPECT_NEAR(mfu_percent(model, 1024, FlopConvention::kLlmC, rate, 989e12), 38.0, 0.05);
  EXPECT_NEAR(mfu_percent(model, 1024, FlopConvention::kTorchtitan, rate, 989e12), 40.7, 0.05);
}

TEST(Flops, MatmulCountsATiedHeadOnceAndAnUntiedOnce) {
  spec::ModelSpec model = llama3_8b();
  const ParameterCounts untied = count_parameters(model);
  model.tie_word_embeddings = true;
  const ParameterCounts tied = count_parameters(model);
  EXPECT_EQ(tied.matmul, untied.matmul);
  EXPECT_EQ(untied.total - tied.total, untied.embedding);
  EXPECT_EQ(untied.total, 8'030'261'248);
}

}  // namespace
}  // namespace ingot::cost
