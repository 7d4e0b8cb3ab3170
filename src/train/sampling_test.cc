#include "train/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace ingot::train {
namespace {

TEST(TokenSampler, TemperatureZeroTakesTheMostLikelyAndTheSmallerIdOfEquals) {
  const std::vector<float> logits = {0.5F, 3.0F, 3.0F, -1.0F};
  TokenSampler sampler({.temperature = 0}, 4);
  EXPECT_EQ(sampler.choose(logits, 0, 0), 1);
}

TEST(TokenSampler, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F};
  TokenSampler sampler({.temperature = 1.0, .seed = 7}, 3);
  std::map<int32_t, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[sampler.choose(logits, 0, i)];
  const double total = 1 + std::exp(1.0) + std::exp(2.0);
  for (int id = 0; id < 3; ++id)
    EXPECT_NEAR(counts[id] / double{kDraws}, std::exp(double(id)) / total, 0.015) << id;
}

TEST(TokenSampler, TopKAndTopPLimitTheCandidates) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, 3.0F};
  TokenSampler two({.top_k = 2, .seed = 1}, 4);
  TokenSampler nucleus({.top_p = 0.5, .seed = 1}, 4);  // the most likely alone has 0.64
  for (int i = 0; i < 500; ++i) {
    EXPECT_GE(two.choose(logits, 0, i), 2);
    EXPECT_EQ(nucleus.choose(logits, 0, i), 3);
  }
}

TEST(TokenSampler, SameSeedSameDraw) {
  const std::vector<float> logits(100, 0.0F);
  TokenSampler a({.seed = 3}, 100), b({.seed = 3}, 100), c({.seed = 4}, 100);
  int same = 0;
  for (int i = 0; i < 50; ++i) {
    const int32_t drawn = a.choose(logits, 2, i);
    EXPECT_EQ(drawn, b.choose(logits, 2, i));
    same += drawn == c.choose(logits, 2, i) ? 1 : 0;
  }
  EXPECT_LT(same, 10);
}

}  // namespace
}  // namespace ingot::train
