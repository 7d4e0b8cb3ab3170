// The families that ship, cut over ranks: five AdamW steps with clipping on every layout give what one rank
// gives, in double. Vocabularies that tp does not divide are padded; one model has a single key-value head
// for all ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "model/model.h"
#include "runtime/training_for_tests.h"

namespace ingot {
namespace {

using runtime::Outcome;
using runtime::Training;

struct FamilyCase {
  std::string name;
  spec::ModelSpec spec;
};

spec::ModelSpec sized(const std::string& family, int64_t kv_heads, int64_t vocabulary) {
  spec::ModelSpec spec = spec::default_model(family);
  spec.num_layers = 2;
  spec.hidden_size = 16;
  spec.num_heads = 4;
  spec.num_kv_heads = kv_heads;
  spec.intermediate_size = 24;
  spec.vocab_size = vocabulary;
  spec.max_positions = 8;
  return spec;
}

std::vector<FamilyCase> cases() {
  FamilyCase gpt2{"gpt2_dropout", sized("gpt2", 4, 31)};
  gpt2.spec.dropout = gpt2.spec.embedding_dropout = 0.2;
  FamilyCase nano{"gpt2_no_bias_untied", sized("gpt2", 4, 30)};
  nano.spec.bias = nano.spec.tie_word_embeddings = false;
  FamilyCase llama{"llama_grouped", sized("llama", 2, 29)};
  llama.spec.rope_scaling = spec::RopeScaling{.factor = 4, .original_max_position_embeddings = 32};
  FamilyCase qwen{"llama_one_key_head_tied", sized("llama", 1, 29)};
  qwen.spec.tie_word_embeddings = qwen.spec.qkv_bias = true;
  return {gpt2, nano, llama, qwen};
}

void expect_near(const std::string& what, const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size()) << what;
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  EXPECT_LE(std::sqrt(difference), 1e-12 * std::max(std::sqrt(size), 1.0)) << what;
}

class FamilyLayouts : public ::testing::TestWithParam<FamilyCase> {
 protected:
  Training one_rank(int micro_batches) const {
    Training training;
    training.build = [spec = GetParam().spec](const graph::BuildOptions& options) {
      return model::build_graph(spec, options).value();
    };
    training.vocabulary = GetParam().spec.vocab_size;
    training.kv_heads = static_cast<int>(GetParam().spec.num_kv_heads);
    training.micro_batches = {micro_batches};
    return training;
  }

  void expect_equal(int dp, int tp, int64_t sequence = 8) const {
    Training one = one_rank(2 * dp);
    one.shape.sequence = sequence;
    Training many = one;
    many.dp = dp;
    many.tp = tp;
    many.micro_batches = {2};
    many.lazy = true;
    const Outcome expected = train(one), actual = train(many);
    ASSERT_EQ(expected.error, "");
    ASSERT_EQ(actual.error, "");
    expect_near("losses", actual.losses, expected.losses);
    expect_near("norms", actual.norms, expected.norms);
    for (const auto& [name, values] : expected.parameters) {
      ASSERT_TRUE(actual.parameters.contains(name)) << name;
      expect_near(name, actual.parameters.at(name), values);
      expect_near(name + " first moment", actual.first_moments.at(name), expected.first_moments.at(name));
    }
  }
};

TEST_P(FamilyLayouts, Tp2) { expect_equal(1, 2); }
TEST_P(FamilyLayouts, Tp4) { expect_equal(1, 4); }
TEST_P(FamilyLayouts, Dp2) { expect_equal(2, 1); }
TEST_P(FamilyLayouts, Dp2Tp2) { expect_equal(2, 2); }
TEST_P(FamilyLayouts, Tp2WithAnOddSequence) { expect_equal(1, 2, 7); }

INSTANTIATE_TEST_SUITE_P(Ships, FamilyLayouts, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ingot
