#include "train/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "train/small_run_for_tests.h"

namespace ingot::train {
namespace {

struct Case {
  std::string family;
  graph::Precision precision = graph::Precision::kF32;
  int threads = 1;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.family << (one.precision == graph::Precision::kBF16 ? " bf16 " : " f32 ") << one.threads;
}

std::unique_ptr<Decoder> make_decoder(const Case& one, int64_t cache) {
  DecoderOptions options;
  options.model = small_model(one.family);
  options.model.max_positions = 64;
  options.precision = one.precision;
  options.threads = one.threads;
  options.cache = cache;
  auto decoder = Decoder::create(options);
  INGOT_CHECK(decoder.has_value(), "{}", decoder.error().message);
  (*decoder)->weights().initialise(3);
  // As published, an untrained model says nearly the same of every token; larger weights make choices clear.
  for (const Weights::Tensor& tensor : (*decoder)->weights().tensors()) {
    if (tensor.definition->logical.rank() < 2) continue;
    for (float& value : (*decoder)->weights().direct(tensor)) value *= 4;
  }
  (*decoder)->weights().touch();
  return std::move(*decoder);
}

int32_t greedy(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

class DecoderOf : public ::testing::TestWithParam<Case> {};

TEST_P(DecoderOf, ABlockOfThePromptGivesTheTextOfOneTokenByOne) {
  auto decoder = make_decoder(GetParam(), 60);
  const std::vector<int32_t> prompt = data::counted_tokens(37, kSmallVocab);  // two blocks and five
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::vector<float>> first_logits;
  for (const size_t at_once : {prompt.size(), size_t{1}, size_t{20}}) {
    decoder->restart();
    std::span<const float> logits;
    for (size_t first = 0; first < prompt.size(); first += at_once) {
      auto fed = decoder->feed(std::span(prompt).subspan(first, std::min(at_once, prompt.size() - first)));
      ASSERT_TRUE(fed) << fed.error().message;
      logits = *fed;
    }
    EXPECT_EQ(decoder->position(), static_cast<int64_t>(prompt.size()));
    first_logits.emplace_back(logits.begin(), logits.end());
    std::vector<int32_t> text;
    for (int i = 0; i < 20; ++i) {
      text.push_back(greedy(logits));
      auto fed = decoder->feed(std::span(&text.back(), 1));
      ASSERT_TRUE(fed) << fed.error().message;
      logits = *fed;
    }
    texts.push_back(text);
  }
  EXPECT_GT(std::set<int32_t>(texts[0].begin(), texts[0].end()).size(), 1U) << "it says more than one word";
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], texts[0]);
  const double bound = GetParam().precision == graph::Precision::kBF16 ? 0.05 : 1e-4;
  EXPECT_LT(greatest_difference(first_logits[1], first_logits[0]), bound);
  EXPECT_LT(greatest_difference(first_logits[2], first_logits[0]), bound);
}

INSTANTIATE_TEST_SUITE_P(All, DecoderOf,
                         ::testing::Values(Case{"llama"}, Case{"gpt2", graph::Precision::kF32, 2},
                                           Case{"llama", graph::Precision::kBF16, 2}));

TEST(Decoder, AFullCacheAndAForeignTokenAreErrorsThatChangeNothing) {
  for (const std::string family : {"llama", "gpt2"}) {
    auto decoder = make_decoder({family}, 21);
    const std::vector<int32_t> tokens = data::counted_tokens(21, kSmallVocab);
    ASSERT_TRUE(decoder->feed(std::span(tokens).first(20)));
    auto full = decoder->feed(std::span(tokens).first(2));
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().message, "the sequence would have 22 tokens; this model's limit is 21");
    for (const int32_t id : {-1, static_cast<int32_t>(kSmallVocab)}) {
      auto foreign = decoder->feed(std::span(&id, 1));
      ASSERT_FALSE(foreign);
      EXPECT_NE(foreign.error().message.find("outside the vocabulary of 61"), std::string::npos);
    }
    EXPECT_EQ(decoder->position(), 20);
    auto last = decoder->feed(std::span(tokens).last(1));
    ASSERT_TRUE(last) << last.error().message;
    const std::vector<float> logits(last->begin(), last->end());
    decoder->restart();
    auto again = decoder->feed(tokens);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_LT(greatest_difference({again->begin(), again->end()}, logits), 1e-4);
  }
}

TEST(Decoder, ACacheShorterThanABlockWorks) {
  auto decoder = make_decoder({"llama"}, 5);
  const std::vector<int32_t> tokens = data::counted_tokens(5, kSmallVocab);
  auto fed = decoder->feed(tokens);
  ASSERT_TRUE(fed) << fed.error().message;
  EXPECT_FALSE(decoder->feed(std::span(tokens).first(1)));
}

TEST(Decoder, LearnedPositionsLimitTheCache) {
  EXPECT_EQ(make_decoder({"gpt2"}, 1000)->cache(), 64);
  EXPECT_EQ(make_decoder({"gpt2"}, 0)->cache(), 64);
  EXPECT_EQ(make_decoder({"llama"}, 100)->cache(), 100);
}

}  // namespace
}  // namespace ingot::train
