#include "train/agreement.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace ingot::train {
namespace {

// Every rank of a local world says its facts; the sentence that each gets, "" where all agree.
std::vector<std::string> sentences(const std::vector<std::vector<Fact>>& facts_of) {
  const int ranks = static_cast<int>(facts_of.size());
  auto transports = comm::make_local_world(ranks);
  std::vector<int> all(facts_of.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::string> said(facts_of.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto at = static_cast<size_t>(rank);
      auto world = transports[at]->group(all);
      ASSERT_TRUE(world);
      const auto agreed = agree(**world, facts_of[at], {.what = "agreement"});
      if (!agreed) {
        EXPECT_EQ(agreed.error().code, ErrorCode::kInvalid);
        said[at] = agreed.error().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::vector<std::vector<Fact>> same(int ranks) {
  const std::vector<Fact> facts = {
      program_fact(), configuration_fact({}), {.subject = "data set", .text = "abc", .remedy = "Copy it"}};
  return std::vector<std::vector<Fact>>(static_cast<size_t>(ranks), facts);
}

TEST(Agreement, EqualRanksAgree) {
  EXPECT_EQ(sentences(same(4)), std::vector<std::string>(4));
  EXPECT_EQ(sentences(same(1)), std::vector<std::string>(1));
}

TEST(Agreement, TheRankWithAnotherConfigurationIsNamedWithWhatDiffers) {
  auto facts = same(3);
  spec::RunSpec other;
  other.train.train_steps = 200;
  other.run.seed = 2;
  other.run.dir = "runs/elsewhere";
  other.run.threads = 7;
  facts[1][1] = configuration_fact(other);
  const std::string sentence =
      "rank 1 has another configuration than the others: there run.seed = 2; train.train_steps = 200, "
      "elsewhere "
      "nothing of it. Start all ranks with the same file and options";
  EXPECT_EQ(sentences(facts), std::vector<std::string>(3, sentence)) << "every rank says the same";
}

TEST(Agreement, MostRanksAreRightAndRankZeroWhereNoneIsMost) {
  auto facts = same(5);
  facts[0][2].text = facts[3][2].text = "def";
  EXPECT_EQ(sentences(facts)[4],
            "ranks 0 and 3 have another data set than the others: there def, elsewhere abc. Copy it");
  facts = same(2);
  facts[1][2].text = "def";
  EXPECT_EQ(sentences(facts)[0],
            "rank 1 has another data set than the others: there def, elsewhere abc. Copy it");
}

TEST(Agreement, AnotherBuildIsToldBeforeWhatFollowsFromIt) {
  EXPECT_NE(program_fact().text.find("build "), std::string::npos);
  EXPECT_GE(program_fact().text.size(), std::string("version 0.1.0, build ").size() + 32) << "no build id";
  auto facts = same(3);
  facts[2][0].text = "version 0.0.9, build 00";
  facts[2][2].text = "def";
  const std::string sentence = sentences(facts)[0];
  EXPECT_EQ(sentence.substr(0, 80),
            "rank 2 has another build of ingot than the others: there version 0.0.9, build 00");
}

TEST(Agreement, StagesAreComparedAmongThemselves) {
  auto facts = same(4);
  for (size_t rank = 0; rank < 4; ++rank) {
    facts[rank][2].kin = static_cast<int>(rank / 2);
    facts[rank][2].text = rank / 2 == 0 ? "first stage" : "second stage";
  }
  EXPECT_EQ(sentences(facts), std::vector<std::string>(4));
  facts[3][2].text = "second stage, other order";
  EXPECT_EQ(sentences(facts)[0].substr(0, 42), "rank 3 has another data set than the other");
}

}  // namespace
}  // namespace ingot::train
