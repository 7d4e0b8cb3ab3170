#include "train/checkpointing.h"

#include <gtest/gtest.h>

#include "train/replay.h"
#include "train/small_run_for_tests.h"

namespace ingot::train {
namespace {

const DataIdentity kIdentity{.data = "d1", .tokenizer = "t1"};

class Checkpointing : public ::testing::Test {
 protected:
  std::string folder() const { return checkpoint_folder(data_.folder() / "run"); }

  // A run of five steps, saved.
  std::unique_ptr<Session> five_steps(const SmallRun& small) {
    auto session = make_session(small);
    train_from_start(*session, data_, 5);
    const Progress progress{.step = 5,
                            .training_seconds = 1.25,
                            .skipped_steps = 2,
                            .best_validation_loss = 3.5,
                            .best_validation_step = 4};
    auto report = save_session(*session, folder(), progress, kIdentity);
    EXPECT_TRUE(report) << report.error().message;
    return session;
  }

  checkpoint::Checkpoint open() const {
    auto saved = checkpoint::Checkpoint::open(folder() + "/" + checkpoint::step_folder(5));
    INGOT_CHECK(saved.has_value(), "{}", saved.error().message);
    return std::move(*saved);
  }

  std::string refusal(const SmallRun& small, const DataIdentity& identity) const {
    auto session = make_session(small);
    auto loaded = load_session(*session, open(), identity);
    return loaded ? "loaded" : loaded.error().message;
  }

  const SmallData data_;
};

TEST_F(Checkpointing, ASavedRunGoesOnWithTheSameBits) {
  for (const graph::Precision precision : {graph::Precision::kF32, graph::Precision::kBF16}) {
    SmallRun small;
    small.precision = precision;
    auto undisturbed = five_steps(small);
    auto resumed = make_session(small);
    auto progress = load_session(*resumed, open(), kIdentity);
    ASSERT_TRUE(progress) << progress.error().message;
    EXPECT_EQ(progress->step, 5);
    EXPECT_EQ(progress->training_seconds, 1.25);
    EXPECT_EQ(progress->skipped_steps, 2);
    EXPECT_EQ(progress->best_validation_loss, 3.5);
    EXPECT_EQ(progress->best_validation_step, 4);
    EXPECT_EQ(all_weights(*resumed), all_weights(*undisturbed));
    ASSERT_TRUE(resumed->start_data(data_.stream(), 5, nullptr));
    EXPECT_EQ(losses_of(train_steps(*resumed, 5, 8)), losses_of(train_steps(*undisturbed, 5, 8)));
    EXPECT_EQ(all_weights(*resumed), all_weights(*undisturbed));
  }
}

TEST_F(Checkpointing, OneRankSavesAndFourGoOn) {
  SmallRun small;
  small.backend = "reference";
  auto one = five_steps(small);
  small.tp = 2;
  small.dp = 2;
  auto four = make_session(small);
  auto progress = load_session(*four, open(), kIdentity);
  ASSERT_TRUE(progress) << progress.error().message;
  EXPECT_EQ(all_weights(*four), all_weights(*one));
  ASSERT_TRUE(four->start_data(data_.stream(), 5, nullptr));
  const std::vector<double> split = losses_of(train_steps(*four, 5, 7));
  const std::vector<double> whole = losses_of(train_steps(*one, 5, 7));
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(split[i], whole[i], 1e-5);
}

TEST_F(Checkpointing, AnotherRunIsRefusedWithWhatDiffers) {
  SmallRun small;
  five_steps(small);
  EXPECT_EQ(refusal(small, kIdentity), "loaded");
  const auto expect = [&](const SmallRun& other, const DataIdentity& identity, const std::string& part) {
    const std::string message = refusal(other, identity);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("run.dir"), std::string::npos) << "says what to do: " << message;
  };
  expect(small, {.data = "d2", .tokenizer = "t1"}, "another data set");
  expect(small, {.data = "d1", .tokenizer = "t2"}, "another tokenizer");
  SmallRun batch = small;
  batch.global_batch = 16;
  expect(batch, kIdentity, "global batch size: 8 there, 16 here");
  SmallRun heads = small;
  heads.kv_heads = 4;
  expect(heads, kIdentity, "num_kv_heads");
  SmallRun family = small;
  family.family = "gpt2";
  expect(family, kIdentity, "gpt2");
}

TEST_F(Checkpointing, AnotherSeedOrLengthIsRefusedWithBothValues) {
  five_steps({});
  for (const bool seed : {false, true}) {
    ResolvedRun run = resolved({});
    if (seed) run.spec.run.seed = 8;
    if (!seed) run.spec.data.seq_len = 20;
    auto programs = compile_programs(run);
    ASSERT_TRUE(programs);
    auto session = Session::create(run, std::move(*programs));
    ASSERT_TRUE(session);
    auto loaded = load_session(**session, open(), kIdentity);
    ASSERT_FALSE(loaded);
    const std::string part = seed ? "run.seed: 7 there, 8 here" : "data.seq_len: 21 there, 20 here";
    EXPECT_NE(loaded.error().message.find(part), std::string::npos) << loaded.error().message;
  }
}

TEST_F(Checkpointing, ReplayFindsTheSameBitsAndAFalsifiedTensor) {
  SmallRun small;
  small.steps = 6;
  auto session = make_session(small);
  session->initialise();
  ASSERT_TRUE(session->start_data(data_.stream(), 0, nullptr));
  const std::string from = folder() + "/" + checkpoint::step_folder(2);
  const std::string to = folder() + "/" + checkpoint::step_folder(4);
  for (const int64_t step : {2, 4}) {
    train_steps(*session, step - 2, step);
    if (step == 4) {
      auto honest = save_session(*session, folder(), {.step = 4}, kIdentity);
      ASSERT_TRUE(honest) << honest.error().message;
      auto differences = replay(resolved(small), data_.stream(), kIdentity, from, to);
      ASSERT_TRUE(differences) << differences.error().message;
      EXPECT_TRUE(differences->empty()) << differences->front();
      const Weights::Tensor& tensor = session->weights().tensors().front();
      session->weights().direct(tensor)[0] += 1e-6F;
    }
    auto report = save_session(*session, folder(), {.step = step}, kIdentity);
    ASSERT_TRUE(report) << report.error().message;
  }
  auto differences = replay(resolved(small), data_.stream(), kIdentity, from, to);
  ASSERT_TRUE(differences) << differences.error().message;
  ASSERT_EQ(differences->size(), 1U);
  EXPECT_NE(differences->front().find(session->weights().tensors().front().parameter), std::string::npos)
      << differences->front();
}

}  // namespace
}  // namespace ingot::train
