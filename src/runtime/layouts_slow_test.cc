// Every way to split 1, 2, 4 and 8 ranks among data, tensor, context and pipeline parallelism, with ZeRO and
// the schedules in turn: what five AdamW steps give is what one rank gives, in double, whatever runs beside
// compute as early and as late as the plan allows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "graph/tiny_model_for_tests.h"
#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

struct Split {
  int dp = 1, tp = 1, cp = 1, pp = 1;
  int zero_stage = 0;
  const char* schedule = "1f1b";
  graph::ContextMode context_mode = graph::ContextMode::kRing;
  graph::Recompute recompute = graph::Recompute::kNone;
  bool tied = false;  // GPT-2 with a tied embedding and dropout, else Llama with grouped queries

  int ranks() const { return dp * tp * cp * pp; }
  int virtual_stages() const { return std::string_view(schedule) == "interleaved" ? 2 : 1; }
  std::string name() const {
    std::string text = tied ? "gpt2_tied" : "llama_grouped";
    const auto add = [&](const char* word, int size) {
      if (size > 1) text += fmt::format("_{}{}", word, size);
    };
    add("dp", dp), add("tp", tp), add("cp", cp), add("pp", pp);
    if (zero_stage > 0) text += fmt::format("_zero{}", zero_stage);
    if (pp > 1) text += std::string_view(schedule) == "zb-h1" ? "_zb_h1" : fmt::format("_{}", schedule);
    if (cp > 1 && context_mode == graph::ContextMode::kGather) text += "_gather";
    if (recompute == graph::Recompute::kSelective) text += "_selective";
    if (recompute == graph::Recompute::kFull) text += "_full";
    return text;
  }
};
void PrintTo(const Split& split, std::ostream* out) { *out << split.name(); }

// All ordered factorizations of each number of ranks; of each one model, both, or with more schedules and
// ZeRO stages, so that every pair of choices meets somewhere.
std::vector<Split> all_splits() {
  constexpr const char* kSchedules[] = {"1f1b", "interleaved", "zb-h1"};
  std::vector<Split> splits;
  int turn = 0;
  const auto add = [&](Split split, int zero_stage, int schedule) {
    split.zero_stage = split.dp * split.cp > 1 ? zero_stage : 0;
    split.schedule = split.pp > 1 ? kSchedules[schedule] : kSchedules[0];
    split.tied = turn % 2 == 0;
    split.context_mode = turn / 2 % 2 == 0 ? graph::ContextMode::kRing : graph::ContextMode::kGather;
    constexpr graph::Recompute kModes[] = {graph::Recompute::kNone, graph::Recompute::kSelective,
                                           graph::Recompute::kFull};
    split.recompute = kModes[turn % 3];
    if (schedule == 2 && split.recompute == graph::Recompute::kFull)
      split.recompute = graph::Recompute::kSelective;  // refused together
    ++turn;
    splits.push_back(split);
  };
  for (const int ranks : {1, 2, 4, 8})
    for (int dp = 1; dp <= ranks; dp *= 2)
      for (int tp = 1; dp * tp <= ranks && tp <= 4; tp *= 2)
        for (int cp = 1; dp * tp * cp <= ranks && cp <= 4; cp *= 2) {
          const Split split{.dp = dp, .tp = tp, .cp = cp, .pp = ranks / (dp * tp * cp)};
          if (split.pp > 4) continue;
          const int stages = dp * cp > 1 ? 4 : 1, schedules = split.pp > 1 ? 3 : 1;
          // Of eight ranks the pairs of a ZeRO stage and a schedule in a diagonal, of fewer all.
          for (int zero = 0; zero < stages; ++zero)
            for (int schedule = 0; schedule < schedules; ++schedule)
              if (ranks < 8 || schedules == 1 || stages == 1 || zero % 3 == schedule)
                add(split, zero, schedule);
        }
  return splits;
}

class Layouts : public ::testing::TestWithParam<Split> {
 protected:
  static Training training(bool tied, int micro_batches) {
    graph::TinyModel model{.layers = 6};
    if (tied) model = {.kv_heads = 4, .layers = 6, .gpt2 = true, .tied = true, .dropout = 0.2};
    Training training;
    training.build = [model](const graph::BuildOptions& options) { return model.build(options); };
    training.kv_heads = static_cast<int>(model.kv_heads);
    training.micro_batches = {micro_batches};
    return training;
  }

  static const Outcome& one_rank(bool tied, int micro_batches) {
    static std::map<std::pair<bool, int>, Outcome> known;
    const auto [found, added] = known.emplace(std::pair(tied, micro_batches), Outcome{});
    if (added) found->second = train(training(tied, micro_batches));
    return found->second;
  }
};

TEST_P(Layouts, EqualsOneRank) {
  const Split& split = GetParam();
  // Interleaving takes a multiple of the stages.
  const int micro_batches = split.virtual_stages() > 1 ? split.pp : 2;
  const Outcome& expected = one_rank(split.tied, micro_batches * split.dp);
  ASSERT_EQ(expected.error, "");
  ASSERT_EQ(expected.losses.size(), 5U);
  for (const bool late : {false, true}) {
    Training many = training(split.tied, micro_batches);
    many.dp = split.dp;
    many.tp = split.tp;
    many.cp = split.cp;
    many.pp = split.pp;
    many.zero_stage = split.zero_stage;
    many.schedule = split.schedule;
    many.virtual_stages = split.virtual_stages();
    many.context_mode = split.context_mode;
    many.recompute = split.recompute;
    many.lazy = late;
    const Outcome outcome = train(many);
    ASSERT_EQ(outcome.error, "");
    const Worst worst = greatest_error(outcome, expected);
    EXPECT_LE(worst.difference, 1e-12) << worst.where << (late ? " late" : " early");
  }
}

TEST(LayoutsOfEightRanks, AreMoreThanAHundred) {
  std::map<int, int> counts;
  std::map<std::string, int> names;
  for (const Split& split : all_splits()) {
    ++counts[split.ranks()];
    EXPECT_EQ(++names[split.name()], 1) << split.name();
  }
  std::printf("layouts: %d of 1 rank, %d of 2, %d of 4, %d of 8\n", counts[1], counts[2], counts[4],
              counts[8]);
  EXPECT_GE(names.size(), 100U);
}

INSTANTIATE_TEST_SUITE_P(All, Layouts, ::testing::ValuesIn(all_splits()),
                         [](const auto& split) { return split.param.name(); });

}  // namespace
}  // namespace ingot::runtime
