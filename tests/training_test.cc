// Whole runs of the binary: what is promised of resume, kills, full disks and damage.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "run_ingot.h"

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

constexpr int kSteps = 100;

// A small run in a folder of its own.
class Training {
 public:
  Training() {
    std::ofstream(folder_ / "text.txt") << made_up_text(60000);
    std::ofstream(folder_ / "run.toml") << R"([model]
family = "llama"
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 64
[data]
train = "text.txt"
tokenizer = "bytes"
validation = 0.05
seq_len = 32
[train]
global_batch_size = 8
micro_batch_size = 4
train_steps = 100
log_interval = 1
[optimizer]
learning_rate = 3e-3
[checkpoint]
save_interval = 10
keep_last = 2
[eval]
eval_interval = 50
)";
  }

  Finished run(const std::string& dir, const std::vector<std::string>& sets = {},
               RunOptions options = {}) const {
    std::vector<std::string> arguments = {"train", "run.toml", "--run-dir", dir};
    for (const std::string& pair : sets) {
      arguments.push_back("--set");
      arguments.push_back(pair);
    }
    return run_words(arguments, std::move(options));
  }

  Finished run_words(const std::vector<std::string>& arguments, RunOptions options = {}) const {
    options.folder = folder_.path();
    options.environment.push_back("INGOT_CACHE=" + (folder_ / "cache"));
    return run_ingot(arguments, options);
  }

  std::string step(const std::string& dir, int number) const {
    std::string digits = std::to_string(number);
    return folder_ / (dir + "/checkpoints/step-" + std::string(8 - digits.size(), '0') + digits);
  }

  // Weights and optimizer state of the last step, and the losses of all steps.
  std::string outcome(const std::string& dir) const {
    std::string bits = content_of(step(dir, kSteps) + "/model.safetensors") +
                       content_of(step(dir, kSteps) + "/optimizer.safetensors");
    EXPECT_FALSE(bits.empty()) << dir << " has no checkpoint of step " << kSteps;
    static const std::regex kLoss(R"re("step":(\d+),"loss":([^,]+))re");
    const std::string metrics = content_of(folder_ / (dir + "/metrics.jsonl"));
    for (std::sregex_iterator it(metrics.begin(), metrics.end(), kLoss), end; it != end; ++it)
      bits += (*it)[1].str() + ":" + (*it)[2].str() + "\n";
    return bits;
  }

  const TestFolder& folder() const { return folder_; }

 private:
  TestFolder folder_;
};

RunOptions with_fault(const std::string& fault) {
  return {.folder = {}, .environment = {"INGOT_FAULT=" + fault}};
}

TEST(Training, LearnsAndLeavesARunThatTheOtherVerbsOpen) {
  const Training training;
  const Finished finished = training.run("a");
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  for (const char* file : {"config.toml", "plan.json", "metrics.jsonl", "events.jsonl", "tokenizer.json"})
    EXPECT_TRUE(fs::exists(training.folder() / (std::string("a/") + file))) << file;
  const std::string metrics = content_of(training.folder() / "a/metrics.jsonl");
  static const std::regex kLoss(R"re("loss":([0-9.]+))re");
  std::vector<double> losses;
  for (std::sregex_iterator it(metrics.begin(), metrics.end(), kLoss), end; it != end; ++it)
    losses.push_back(std::stod((*it)[1]));
  ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
  EXPECT_NEAR(losses.front(), std::log(257.0), 0.3) << "an untrained model knows nothing";
  EXPECT_LT(losses.back(), losses.front() - 1.5);
  const Finished eval = training.run_words({"eval", "a"});
  EXPECT_EQ(eval.exit_code, 0) << eval.err;
  EXPECT_TRUE(contains(eval.out, "bits per byte")) << eval.out;
  const Finished text =
      training.run_words({"generate", "a", "--prompt", "the ", "--tokens", "20", "--seed", "3"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out,
            training.run_words({"generate", "a", "--prompt", "the ", "--tokens", "20", "--seed", "3"}).out);
  const Finished verify = training.run_words({"verify", "a", "--replay"});
  EXPECT_EQ(verify.exit_code, 0) << verify.out << verify.err;
  EXPECT_TRUE(contains(verify.out, "the same bits")) << verify.out;
  EXPECT_EQ(training.run_words({"export", "a", "--to", "hf"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(training.folder() / "hf/model.safetensors"));
  const Finished from = training.run("b", {"train.init_from=hf", "train.train_steps=1"});
  EXPECT_EQ(from.exit_code, 0) << from.err;
}

TEST(Training, HalvesAndTheWholeGiveTheSameBitsAtOneAndTwoThreads) {
  const Training training;
  ASSERT_EQ(training.run("whole", {"run.threads=1"}).exit_code, 0);
  const std::string whole = training.outcome("whole");
  for (const char* threads : {"run.threads=1", "run.threads=2"}) {
    const std::string dir = std::string("halves") + threads[12];
    const Finished first = training.run(dir, {threads, "checkpoint.save_interval=50"},
                                        with_fault("checkpoint.after_prune=kill"));
    ASSERT_EQ(first.exit_code, 128 + 9) << first.err;
    ASSERT_TRUE(fs::exists(training.step(dir, 50)));
    const Finished second = training.run(dir, {threads, "checkpoint.save_interval=50"});
    ASSERT_EQ(second.exit_code, 0) << second.err;
    EXPECT_TRUE(contains(second.out, "step 50 from")) << second.out;
    EXPECT_TRUE(training.outcome(dir) == whole) << threads << ": other bits";
  }
}

TEST(Training, KilledAtTwentyMomentsItEndsWithTheSameBits) {
  const Training training;
  ASSERT_EQ(training.run("undisturbed").exit_code, 0);
  const std::string expected = training.outcome("undisturbed");
  const std::vector<std::string> points = {
      "begin",         "after_model",  "after_optimizer", "after_state",  "after_manifest",
      "before_rename", "after_rename", "before_prune",    "during_prune", "after_prune"};
  int moment = 0;
  for (const std::string& point : points) {
    const std::string dir = "saving-" + point;
    // Not the first save: there has to be something that could be lost.
    const Finished killed = training.run(
        dir, {}, with_fault("checkpoint." + point + ":" + std::to_string(2 + moment++ % 5) + "=kill"));
    EXPECT_EQ(killed.exit_code, 128 + 9) << point << " was not met";
    const Finished resumed = training.run(dir);
    ASSERT_EQ(resumed.exit_code, 0) << point << ": " << resumed.err;
    EXPECT_TRUE(training.outcome(dir) == expected) << point << ": other bits";
  }
  for (int i = 1; i <= 10; ++i) {
    const std::string dir = "time-" + std::to_string(i);
    (void)training.run(dir, {}, {.folder = {}, .environment = {}, .kill_after_ms = 18 * i});
    const Finished resumed = training.run(dir);
    ASSERT_EQ(resumed.exit_code, 0) << dir << ": " << resumed.err;
    EXPECT_TRUE(training.outcome(dir) == expected) << dir << ": other bits";
  }
}

TEST(Training, ASignalSavesAndExitsWithThree) {
  const Training training;
  const Finished stopped =
      training.run("a", {"train.train_steps=100000"},
                   {.folder = {}, .environment = {}, .kill_after_ms = 1500, .signal = 15});
  ASSERT_EQ(stopped.exit_code, 3) << stopped.out << stopped.err;
  EXPECT_TRUE(contains(stopped.out, "go on with: ingot train a")) << stopped.out;
  const Finished again = training.run("a", {"train.train_steps=100000"},
                                      {.folder = {}, .environment = {}, .kill_after_ms = 1500, .signal = 2});
  EXPECT_EQ(again.exit_code, 3) << again.err;
  EXPECT_TRUE(contains(again.out, "resume")) << again.out;
}

TEST(Training, AFullDiskDuringASaveLosesNothing) {
  const Training training;
  const Finished finished = training.run("a", {}, with_fault("checkpoint.after_model:3=enospc"));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(contains(finished.err, "saving failed")) << finished.err;
  EXPECT_TRUE(contains(content_of(training.folder() / "a/events.jsonl"), "checkpoint_failed"));
  EXPECT_TRUE(fs::exists(training.step("a", kSteps)));
}

TEST(Training, ADamagedCheckpointIsNamedAndTheOneBeforeIsUsed) {
  const Training training;
  ASSERT_EQ(training.run("a").exit_code, 0);
  const std::string file = training.step("a", 100) + "/optimizer.safetensors";
  {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(fs::file_size(file) / 2));
    out.put('\x5a');
  }
  const Finished verify = training.run_words({"verify", "a"});
  EXPECT_EQ(verify.exit_code, 1) << verify.out << verify.err;
  const Finished again = training.run("a");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(contains(again.err, "optimizer.safetensors")) << again.err;
  EXPECT_TRUE(contains(again.out, "step 90 from")) << again.out;
}

TEST(Training, AnotherModelOrDataIsRefusedWithARemedy) {
  const Training training;
  ASSERT_EQ(training.run("a").exit_code, 0);
  const Finished model = training.run("a", {"model.num_hidden_layers=3"});
  EXPECT_EQ(model.exit_code, 2) << model.out;
  EXPECT_TRUE(contains(model.err, "model.num_hidden_layers: 2 before, 3 now")) << model.err;
  std::ofstream(training.folder() / "text.txt") << made_up_text(70000);
  const Finished data = training.run("a", {"train.train_steps=120"});
  EXPECT_EQ(data.exit_code, 2) << data.out;
  EXPECT_TRUE(contains(data.err, "text.txt   has changed since a began")) << data.err;
  EXPECT_FALSE(contains(data.err, "its tokens are others")) << data.err;
  const Finished eval = training.run_words({"eval", "a"});
  EXPECT_EQ(eval.exit_code, 0) << "bytes are the same tokens in any text" << eval.err;
}

TEST(Training, TheRemedyForATextThatChangedUnderATrainedTokenizerWorks) {
  const Training training;
  const std::vector<std::string> own = {"data.tokenizer=\"\"", "train.train_steps=20"};
  ASSERT_EQ(training.run("a", own).exit_code, 0);
  std::ofstream(training.folder() / "text.txt") << made_up_text(70000) << "quite another ending, quizzically";
  const Finished refused = training.run_words({"train", "a", "--set", "train.train_steps=40"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  for (const char* part : {"text.txt   has changed since a began (its tokens are others now)",
                           "ingot export a --to hf-folder/", "--set train.init_from=hf-folder/"})
    EXPECT_TRUE(contains(refused.err, part)) << part << "\n" << refused.err;
  const Finished eval = training.run_words({"eval", "a"});
  EXPECT_EQ(eval.exit_code, 2);
  EXPECT_TRUE(contains(eval.err, "--data text.txt")) << eval.err;
  ASSERT_EQ(training.run_words({"export", "a", "--to", "hf-folder/"}).exit_code, 0);
  const Finished onward =
      training.run_words({"train", "text.txt", "--set", "train.init_from=hf-folder/", "--set",
                          "train.train_steps=5", "--set", "data.seq_len=32", "--run-dir", "b"});
  ASSERT_EQ(onward.exit_code, 0) << onward.out << onward.err;
  EXPECT_TRUE(contains(onward.out, "2 layers, 32 wide")) << "the shape of the weights: " << onward.out;
  EXPECT_EQ(content_of(training.folder() / "a/tokenizer.json"),
            content_of(training.folder() / "b/tokenizer.json"));
}

TEST(Training, BytesThatAreNoTextAreSaidNowAndWheneverTheDataIsUsed) {
  const Training training;
  std::ofstream(training.folder() / "text.txt") << made_up_text(30000) << "caf\xe9 " << made_up_text(30000);
  for (const char* dir : {"a", "b"}) {
    const Finished finished = training.run(dir, {"train.train_steps=2"});
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_TRUE(contains(finished.err, "not UTF-8 text throughout")) << dir << finished.err;
  }
}

TEST(Training, ValidationDataThatIsTooShortIsSaid) {
  const Training training;
  const Finished finished = training.run("a", {"train.train_steps=2", "data.validation=0.0003"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(contains(finished.err, "the validation data has 19 tokens")) << finished.err;
  const Finished target =
      training.run("b", {"train.train_steps=2", "data.validation=0.0003", "train.target_loss=1"});
  EXPECT_EQ(target.exit_code, 2) << target.out;
  EXPECT_TRUE(contains(target.err, "train.target_loss = 1")) << target.err;
}

TEST(Training, ALostConfigurationIsTakenFromACheckpoint) {
  const Training training;
  ASSERT_EQ(training.run("a", {"train.train_steps=20"}).exit_code, 0);
  const std::string config = training.folder() / "a/config.toml", whole = content_of(config);
  for (const bool there : {false, true}) {
    fs::remove(config);
    if (there) std::ofstream(config) << whole.substr(0, whole.size() / 2);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"eval", "a"}, {"train", "a"}, {"verify", "a"}}) {
      const Finished finished = training.run_words(words);
      EXPECT_EQ(finished.exit_code, 0) << words[0] << finished.err;
      EXPECT_TRUE(contains(finished.err, there ? "a/config.toml is not whole; the copy in"
                                               : "a/config.toml is missing; the copy in"))
          << words[0] << finished.err;
    }
  }
  const Finished more = training.run_words({"train", "a", "--set", "train.train_steps=30"});
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_TRUE(contains(more.out, "step 20 from")) << more.out;
  EXPECT_TRUE(contains(content_of(config), "train_steps = 30")) << "written again";
}

TEST(Training, AFolderOfOtherFilesIsTakenWithAWarning) {
  const Training training;
  fs::create_directory(training.folder() / "mine");
  std::ofstream(training.folder() / "mine/letter.doc") << "dear";
  const Finished finished = training.run("mine", {"train.train_steps=2"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(contains(finished.err, "mine holds other files (letter.doc)")) << finished.err;
  const Finished again = training.run("mine", {"train.train_steps=4"});
  EXPECT_FALSE(contains(again.err, "other files")) << again.err;
}

TEST(Training, AModelsWindowIsSaidAndEvaluationsNameTheirData) {
  const Training training;
  ASSERT_EQ(training.run("a", {"train.train_steps=20"}).exit_code, 0);
  const Finished full =
      training.run_words({"generate", "a", "--prompt", std::string(30, 'a'), "--tokens", "90"});
  EXPECT_EQ(full.exit_code, 0) << full.err;
  EXPECT_TRUE(contains(full.err, "of the 90 asked for")) << full.err;
  const Finished longer = training.run_words({"generate", "a", "--prompt", made_up_text(200)});
  EXPECT_EQ(longer.exit_code, 2) << longer.out;
  EXPECT_TRUE(contains(longer.err, "Give a shorter one")) << longer.err;
  std::ofstream(training.folder() / "other.txt") << made_up_text(400);
  std::ofstream(training.folder() / "third.txt") << made_up_text(500);
  const Finished foreign = training.run_words({"eval", "a", "--data", "other.txt", "--data", "third.txt"});
  EXPECT_TRUE(contains(foreign.out, "of other.txt and 1 more\n")) << foreign.out << foreign.err;
  const Finished own = training.run_words({"eval", "a"});
  EXPECT_TRUE(contains(own.out, "of text.txt (validation)")) << own.out << own.err;
  const Finished verify = training.run_words({"verify", "a", "--replay", "--json"});
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
  EXPECT_TRUE(contains(verify.out, "\"differences\": []")) << verify.out;
}

TEST(Training, ARunWhoseOutputIsLostIsSavedAndFails) {
  const Training training;
  const Finished finished = training.run("a", {"train.train_steps=100"}, {.output = "/dev/full"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_TRUE(contains(finished.err, "standard output cannot be written")) << finished.err;
  EXPECT_TRUE(fs::exists(training.step("a", kSteps)));
}

TEST(Training, ANonFiniteNormSkipsTheUpdateAndNamesTheInstruction) {
  const Training training;
  const Finished finished =
      training.run("a", {"optimizer.learning_rate=1000", "optimizer.clip_grad=0", "train.train_steps=40"});
  EXPECT_TRUE(contains(finished.err, "the update was skipped; first non-finite value:")) << finished.err;
  const std::string events = content_of(training.folder() / "a/events.jsonl");
  EXPECT_TRUE(std::regex_search(events, std::regex(R"re("step_skipped".*#\d+)re"))) << events;
}

TEST(Training, WhatDoesNotFitIsASentence) {
  const Training training;
  const Finished vocabulary = training.run("a", {"model.vocab_size=100"});
  EXPECT_EQ(vocabulary.exit_code, 2);
  EXPECT_TRUE(contains(vocabulary.err, "model.vocab_size")) << vocabulary.err;
  const Finished batch = training.run("a", {"train.micro_batch_size=3"});
  EXPECT_EQ(batch.exit_code, 2);
  EXPECT_TRUE(contains(batch.err, "8")) << batch.err;
  const Finished folder = training.run("/dev/null/run");
  EXPECT_NE(folder.exit_code, 0);
  EXPECT_TRUE(contains(folder.err, "/dev/null/run")) << folder.err;
  const Finished length = training.run("a", {"data.seq_len=100000"});
  EXPECT_EQ(length.exit_code, 2);
  EXPECT_TRUE(contains(length.err, "seq_len")) << length.err;
}

TEST(Training, ShapesThatCannotBeRunAreMistakes) {
  const Training training;
  const Finished head = training.run("a", {"model.head_dim=256"});
  EXPECT_EQ(head.exit_code, 2) << head.err;
  EXPECT_TRUE(contains(head.err, "model.head_dim = 256")) << head.err;
  const Finished batch = training.run("a", {"train.global_batch_size=100000000"});
  EXPECT_EQ(batch.exit_code, 2) << batch.err;
  EXPECT_TRUE(contains(batch.err, "micro-batches a step")) << batch.err;
  EXPECT_FALSE(fs::exists(training.folder() / "a"));
}

TEST(Training, TwoProcessesDoNotShareAFolder) {
  const Training training;
  std::thread first([&] { (void)training.run("a", {"train.train_steps=100000", "train.max_time=\"3s\""}); });
  while (!fs::exists(training.folder() / "a/config.toml"))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Finished second = training.run("a", {"train.train_steps=100000"});
  first.join();
  EXPECT_EQ(second.exit_code, 2) << second.out;
  EXPECT_TRUE(contains(second.err, "another process is training in a")) << second.err;
}

TEST(Training, AModelThatIsNotANumberIsNoSuccess) {
  const Training training;
  const Finished finished = training.run("a", {"optimizer.adam_eps=0", "train.train_steps=5"});
  EXPECT_EQ(finished.exit_code, 1) << finished.out;
  EXPECT_TRUE(contains(finished.err, "not finite")) << finished.err;
  EXPECT_FALSE(contains(finished.out, "(best)")) << finished.out;
  EXPECT_FALSE(contains(finished.out, "-nan")) << finished.out;
}

TEST(Training, DryRunPlansAndStartsNothing) {
  const Training training;
  const Finished dry = training.run_words({"train", "text.txt", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  for (const char* part :
       {"machine", "model", "parameters", "budget", "memory", "predicted", "nothing was started"})
    EXPECT_TRUE(contains(dry.out, part)) << part << "\n" << dry.out;
  EXPECT_FALSE(fs::exists(training.folder() / "runs"));
}

TEST(Training, RanksAsThreadsTrainToo) {
  const Training training;
  ASSERT_EQ(training.run("one").exit_code, 0);
  const Finished two = training.run("two", {"parallel.dp=2", "parallel.zero_stage=3"});
  ASSERT_EQ(two.exit_code, 0) << two.err;
  const Finished eval_one = training.run_words({"eval", "one", "--json"});
  const Finished eval_two = training.run_words({"eval", "two", "--json"});
  static const std::regex kLoss(R"re("loss": ([0-9.]+))re");
  std::smatch one, other;
  ASSERT_TRUE(std::regex_search(eval_one.out, one, kLoss)) << eval_one.err;
  ASSERT_TRUE(std::regex_search(eval_two.out, other, kLoss)) << eval_two.err;
  EXPECT_NEAR(std::stod(one[1]), std::stod(other[1]), 0.05);
}

}  // namespace
}  // namespace ingot::testing
