#include "train/resolve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cost/flops.h"

namespace ingot::train {
namespace {

spec::LoadedSpec loaded(const std::string& text, const std::vector<std::string>& sets = {}) {
  auto result = spec::parse_spec("[data]\ntrain = [\"book.txt\"]\n" + text, "run.toml", sets);
  INGOT_CHECK(result.has_value(), "{}", result.error().message);
  return std::move(*result);
}

const MachineFacts kMachine{.threads = 2,
                            .fast_bf16 = true,
                            .bf16_flops_per_second = 400e9,
                            .f32_flops_per_second = 150e9,
                            .available_bytes = int64_t{8} << 30};
const DataFacts kBook{.train_tokens = 2'000'000, .validation_tokens = 20'000, .vocab_size = 4096};

constexpr const char* kSized = R"([model]
family = "llama"
hidden_size = 64
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
)";

Resolution must_resolve(const std::string& text, const std::vector<std::string>& sets = {},
                        const MachineFacts& machine = kMachine, const DataFacts& data = kBook) {
  auto result = resolve(loaded(text, sets), machine, data);
  INGOT_CHECK(result.has_value(), "{}", result.error().message);
  return std::move(*result);
}

const Explanation* find(const Resolution& resolution, const std::string& subject) {
  const auto found = std::find_if(resolution.explanations.begin(), resolution.explanations.end(),
                                  [&](const Explanation& one) { return one.subject == subject; });
  return found == resolution.explanations.end() ? nullptr : &*found;
}

int64_t parameters(const Resolution& resolution) {
  return cost::count_parameters(resolution.run.spec.model).total;
}

TEST(Resolve, WithNothingGivenEverythingIsChosenAndExplained) {
  const Resolution chosen = must_resolve("");
  const ResolvedRun& run = chosen.run;
  EXPECT_TRUE(std::any_of(shape_rows().begin(), shape_rows().end(), [&](const ShapeRow& row) {
    return row.layers == run.spec.model.num_layers && row.hidden == run.spec.model.hidden_size;
  }));
  EXPECT_EQ(run.spec.model.vocab_size, kBook.vocab_size);
  EXPECT_EQ(run.spec.model.max_positions, run.seq_len());
  EXPECT_EQ(run.threads, 2);
  EXPECT_EQ(run.backend, "cpu");
  EXPECT_EQ(run.precision, graph::Precision::kBF16);
  EXPECT_TRUE(chosen.budget_is_time);
  EXPECT_EQ(run.spec.train.max_time, kDefaultMaxTimeSeconds);
  EXPECT_GT(run.train_steps, 0);
  EXPECT_TRUE(run.batch.validate());
  for (const char* subject : {"model", "budget"}) ASSERT_NE(find(chosen, subject), nullptr) << subject;
}

TEST(Resolve, MoreTimeOrAFasterMachineNeverMeansASmallerModel) {
  int64_t before = 0;
  for (const int minutes : {1, 10, 100, 1000, 10000}) {
    const int64_t now = parameters(must_resolve("", {"train.max_time=" + std::to_string(minutes * 60)}));
    EXPECT_GE(now, before) << minutes;
    before = now;
  }
  MachineFacts fast = kMachine;
  fast.bf16_flops_per_second *= 100;
  EXPECT_GT(parameters(must_resolve("", {}, fast)), parameters(must_resolve("")));
}

TEST(Resolve, PrecisionFollowsTheMachineUnlessItIsGiven) {
  MachineFacts old = kMachine;
  old.fast_bf16 = false;
  const Resolution chosen = must_resolve(kSized, {}, old);
  EXPECT_EQ(chosen.run.precision, graph::Precision::kF32);
  EXPECT_EQ(chosen.run.spec.run.precision, spec::Precision::kFp32);
  ASSERT_NE(find(chosen, "precision"), nullptr);
  EXPECT_EQ(must_resolve(kSized, {"run.precision=bf16"}, old).run.precision, graph::Precision::kBF16);
  EXPECT_EQ(must_resolve(kSized, {"run.precision=fp32"}).run.precision, graph::Precision::kF32);
}

TEST(Resolve, BudgetsBecomeSteps) {
  const std::vector<std::string> batch = {"train.global_batch_size=8", "data.seq_len=100"};
  const auto with = [&](const std::string& set) {
    std::vector<std::string> sets = batch;
    sets.push_back(set);
    return must_resolve(kSized, sets);
  };
  const Resolution steps = with("train.train_steps=123");
  EXPECT_EQ(steps.run.train_steps, 123);
  EXPECT_FALSE(steps.budget_is_time);
  const Resolution tokens = with("train.train_tokens=8001");
  EXPECT_EQ(tokens.run.train_steps, 11) << "8001 tokens of 800 a step, rounded up";
  EXPECT_EQ(tokens.run.spec.train.train_steps, 11) << "what is written down is what is run";
  EXPECT_FALSE(tokens.run.spec.train.train_tokens);
  EXPECT_NE(find(tokens, "budget")->text.find("11 steps of 800 tokens"), std::string::npos)
      << find(tokens, "budget")->text;
}

TEST(Resolve, AMeasuredStepSetsATimeBudgetAndWhatFollowsFromIt) {
  const DataFacts library{.train_tokens = 2'000'000'000, .validation_tokens = 20'000, .vocab_size = 4096};
  Resolution chosen = must_resolve(kSized, {"train.max_time=1000"}, kMachine, library);
  finish_budget(chosen, 0.01);
  EXPECT_EQ(chosen.run.train_steps, 90000) << "nine tenths of the time";
  EXPECT_EQ(chosen.run.schedule.total_steps, 90000);
  EXPECT_EQ(chosen.run.schedule.warmup_steps, 900);
  EXPECT_DOUBLE_EQ(chosen.run.schedule.floor, 0.1 * chosen.run.schedule.peak);
  finish_budget(chosen, 5);
  EXPECT_EQ(chosen.run.train_steps, 180);
  EXPECT_LT(chosen.run.schedule.warmup_steps, 90) << "not what the first estimate gave";
  EXPECT_EQ(std::count_if(chosen.explanations.begin(), chosen.explanations.end(),
                          [](const Explanation& one) { return one.subject == "budget"; }),
            1);
  finish_budget(chosen, 1e9);
  EXPECT_EQ(chosen.run.train_steps, 1);
  Resolution steps = must_resolve(kSized, {"train.train_steps=7"});
  finish_budget(steps, 1000);
  EXPECT_EQ(steps.run.train_steps, 7) << "a budget in steps is no time";
}

TEST(Resolve, AGivenScheduleStays) {
  const Resolution chosen = must_resolve(
      kSized, {"train.train_steps=200", "schedule.warmup_steps=30", "schedule.min_lr=1e-5",
               "schedule.lr_schedule=wsd", "schedule.wsd_decay_steps=50", "optimizer.learning_rate=2e-3"});
  const LrSchedule& schedule = chosen.run.schedule;
  EXPECT_EQ(schedule.shape, LrShape::kWsd);
  EXPECT_EQ(schedule.warmup_steps, 30);
  EXPECT_EQ(schedule.floor, 1e-5);
  EXPECT_EQ(schedule.peak, 2e-3);
  EXPECT_EQ(schedule.decay_fraction, 0.25);
}

TEST(Resolve, AnOpenBatchFeedsEveryStage) {
  for (const int64_t pp : {2, 3, 4}) {
    const Resolution chosen =
        must_resolve(kSized, {fmt::format("parallel.pp={}", pp), "model.num_hidden_layers=6",
                              "train.train_steps=10", "parallel.dp=2", "data.seq_len=128"});
    const data::StepLayout& batch = chosen.run.batch;
    EXPECT_TRUE(batch.validate());
    EXPECT_EQ(batch.micro_batches(0) % pp, 0) << pp;
    EXPECT_GE(batch.micro_batches(0), 4 * pp);
    EXPECT_EQ(chosen.run.mesh.world(), 2 * pp);
    const auto said = std::ranges::find(chosen.explanations, "layout", &Explanation::subject);
    ASSERT_NE(said, chosen.explanations.end());
    EXPECT_NE(said->text.find(fmt::format("{} ranks: dp 2, pp {} (", 2 * pp, pp)), std::string::npos)
        << said->text;
    EXPECT_NE(said->text.find("ZeRO 1"), std::string::npos) << said->text;
  }
}

TEST(Resolve, TheMicroBatchDividesWhatAReplicaTakes) {
  for (const int64_t global : {1, 6, 7, 48, 60}) {
    for (const int64_t seq_len : {64, 1000, 5000}) {
      for (const int64_t dp : {1, 2, 3}) {
        if (global % dp != 0) continue;
        const Resolution chosen = must_resolve(
            kSized, {fmt::format("train.global_batch_size={}", global),
                     fmt::format("data.seq_len={}", seq_len), fmt::format("parallel.dp={}", dp)});
        const data::StepLayout& batch = chosen.run.batch;
        EXPECT_TRUE(batch.validate());
        EXPECT_EQ(batch.global_batch, global);
        EXPECT_EQ(batch.micro_batches(0) * batch.micro_batch * dp, global);
        EXPECT_LE(batch.micro_batch * seq_len, std::max<int64_t>(4096, seq_len));
      }
    }
  }
  EXPECT_EQ(must_resolve(kSized, {"train.global_batch_size=12", "data.seq_len=64"}).run.batch.micro_batch,
            12);
  EXPECT_EQ(
      must_resolve(kSized, {"train.global_batch_size=12", "data.seq_len=64", "train.max_micro_batch_size=5"})
          .run.batch.micro_batch,
      4);
  EXPECT_EQ(
      must_resolve(kSized, {"train.global_batch_size=12", "train.micro_batch_size=2"}).run.batch.micro_batch,
      2);
}

TEST(Resolve, AChosenBatchDividesByTheReplicas) {
  for (const int64_t dp : {1, 2, 3, 5}) {
    const Resolution chosen = must_resolve(kSized, {fmt::format("parallel.dp={}", dp)});
    EXPECT_EQ(chosen.run.batch.global_batch % dp, 0);
    EXPECT_EQ(chosen.run.batch.replicas, dp);
    EXPECT_EQ(chosen.run.mesh.world(), dp);
    EXPECT_EQ(chosen.run.spec.train.global_batch_size, chosen.run.batch.global_batch);
  }
}

TEST(Resolve, AChosenBatchIsAMultipleOfAGivenMicroBatch) {
  const Resolution chosen = must_resolve(kSized, {"train.micro_batch_size=7", "parallel.dp=2"});
  EXPECT_EQ(chosen.run.batch.micro_batch, 7);
  EXPECT_EQ(chosen.run.batch.global_batch % 14, 0);
}

TEST(Resolve, AllContradictionsWithTheFactsAreSaidAtOnce) {
  const DataFacts facts{.train_tokens = 50, .validation_tokens = 0, .vocab_size = 5000};
  spec::LoadedSpec given = loaded(std::string(kSized) + "vocab_size = 300\n", {"data.seq_len=64"});
  given.spec.train.global_batch_size = 10;  // a file that says so is refused when it is read
  given.spec.train.micro_batch_size = 4;
  auto result = resolve(given, kMachine, facts);
  ASSERT_FALSE(result);
  const std::string& message = result.error().message;
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  for (const char* part : {"model.vocab_size = 300", "5000", "has 50 tokens", "data.seq_len + 1 = 65",
                           "global_batch_size = 10", "micro_batch"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in:\n" << message;
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 2) << message;
}

TEST(Resolve, ALargerVocabularyThanTheTokenizersIsKept) {
  EXPECT_EQ(must_resolve(std::string(kSized) + "vocab_size = 5000\n").run.spec.model.vocab_size, 5000);
}

TEST(Resolve, AModelIsNoLargerThanItsTextCanFill) {
  const MachineFacts fast{.threads = 2,
                          .fast_bf16 = true,
                          .bf16_flops_per_second = 1e15,
                          .f32_flops_per_second = 1e14,
                          .available_bytes = int64_t{8} << 30};
  const std::vector<std::string> day = {"train.max_time=24h"};
  int64_t before = 0;
  for (const int64_t tokens : {20'000, 200'000, 2'000'000, 20'000'000, 200'000'000}) {
    const DataFacts text{.train_tokens = tokens, .validation_tokens = 1000, .vocab_size = 4096};
    const int64_t now = parameters(must_resolve("", day, fast, text));
    EXPECT_GT(now, before) << tokens;
    before = now;
  }
  const DataFacts story{.train_tokens = 20'000, .validation_tokens = 1000, .vocab_size = 512};
  EXPECT_LT(parameters(must_resolve("", day, fast, story)), 200'000);
  EXPECT_GT(before, 50'000'000) << "where there is text and time, size is worth it";
}

TEST(Resolve, ATimeBudgetEndsWhereRepeatsTeachNothing) {
  const DataFacts story{.train_tokens = 20'480, .validation_tokens = 1000, .vocab_size = 512};
  const Resolution chosen = must_resolve("", {"train.max_time=24h"}, kMachine, story);
  EXPECT_TRUE(chosen.budget_is_data);
  EXPECT_EQ(chosen.run.train_steps * chosen.run.tokens_per_step(), 40 * 20'480);
  EXPECT_NE(find(chosen, "budget")->text.find("repeats"), std::string::npos) << find(chosen, "budget")->text;
  const Resolution asked = must_resolve("", {"train.train_steps=5000"}, kMachine, story);
  EXPECT_EQ(asked.run.train_steps, 5000) << "steps that were asked for are done";
}

TEST(Resolve, TheEstimatedBudgetAndThePredictedTimeAreOneGuess) {
  const Resolution chosen = must_resolve(kSized, {"train.max_time=300s"});
  const double seconds =
      predicted_seconds_per_step(chosen.run, kMachine) * static_cast<double>(chosen.run.train_steps);
  EXPECT_NEAR(seconds, 270, 270 * 0.01);
}

TEST(Resolve, ChosenNumbersReadWell) {
  const Resolution given = must_resolve(kSized, {"optimizer.learning_rate=6e-4", "train.train_steps=100"});
  EXPECT_EQ(given.run.spec.schedule.min_lr, 6e-5);
  const double chosen = must_resolve("").run.spec.optimizer.learning_rate;
  EXPECT_EQ(fmt::format("{}", chosen).size(), fmt::format("{:.3g}", chosen).size());
}

TEST(Resolve, ProgramsThatNeedMoreThanTheirShareOfMemoryAreRefused) {
  const Resolution chosen = must_resolve(kSized, {"train.train_steps=10", "run.memory_fraction=0.5"});
  auto programs = compile_programs(chosen.run);
  ASSERT_TRUE(programs) << programs.error().message;
  MachineFacts machine = kMachine;
  machine.available_bytes = 2 * planned_memory(*programs).total();
  EXPECT_TRUE(check_memory(chosen.run, *programs, machine));
  programs->push_back(programs->front());
  const auto refused = check_memory(chosen.run, *programs, machine);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("memory_fraction = 0.5"), std::string::npos);
}

TEST(RankingLoss, FallsWithParametersAndTokensAndMoreThanTheTextCanUseIsWorthLess) {
  EXPECT_LT(ranking_loss(2e6, 1e7, 1e7), ranking_loss(1e6, 1e7, 1e7));
  EXPECT_LT(ranking_loss(1e6, 2e7, 2e7), ranking_loss(1e6, 1e7, 1e7));
  EXPECT_LT(ranking_loss(1e6, 4e7, 1e7), ranking_loss(1e6, 1e7, 1e7));
  EXPECT_GT(ranking_loss(1e6, 4e7, 1e7), ranking_loss(1e6, 4e7, 4e7));
  EXPECT_GT(ranking_loss(1e8, 1e8, 1e7), ranking_loss(1e8, 1e8, 1e8));
  EXPECT_LT(ranking_loss(1e8, 1e8, 1e7) - ranking_loss(1e9, 1e8, 1e7), 1e-6) << "the excess is worth nothing";
  // The authors' law without repeats: 1.87 + 521 / N^0.353 + 1488 / D^0.353.
  EXPECT_NEAR(ranking_loss(2.8e9, 55e9, 55e9),
              1.87 + 521 / std::pow(2.8e9, 0.353) + 1488 / std::pow(55e9, 0.353), 0.01);
}

}  // namespace
}  // namespace ingot::train
