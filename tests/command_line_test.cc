// What a user meets on the command line: help, mistakes, exit codes. No training here.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "run_ingot.h"

namespace ingot::testing {
namespace {

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CommandLine, HelpStartsInUnder50Milliseconds) {
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    const Finished help = run_ingot({"--help"});
    ASSERT_EQ(help.exit_code, 0);
    EXPECT_TRUE(contains(help.out, "ingot train book.txt"));
    best = std::min(best, help.seconds);
  }
  EXPECT_LT(best, 0.050);
}

TEST(CommandLine, EveryVerbHasHelpWithAnExample) {
  const std::vector<std::vector<std::string>> verbs = {{"train"},
                                                       {"data", "build"},
                                                       {"data", "info"},
                                                       {"data", "cat"},
                                                       {"data", "tokenizer", "train"},
                                                       {"data", "tokenizer", "info"},
                                                       {"eval"},
                                                       {"generate"},
                                                       {"export"},
                                                       {"verify"}};
  for (std::vector<std::string> words : verbs) {
    std::string name;
    for (const std::string& word : words) name += " " + word;
    words.push_back("--help");
    const Finished help = run_ingot(words);
    EXPECT_EQ(help.exit_code, 0) << name;
    EXPECT_TRUE(contains(help.out, "  ingot" + name + " ")) << "no example in the help of" << name;
    EXPECT_TRUE(contains(help.out, "Exit codes")) << name;
    size_t widest = 0, begin = 0;
    for (size_t end; (end = help.out.find('\n', begin)) != std::string::npos; begin = end + 1)
      widest = std::max(widest, end - begin);
    EXPECT_LE(widest, 100U) << "help of" << name << " is wider than a terminal";
  }
}

TEST(CommandLine, UnknownVerbsAndOptionsNameTheNearest) {
  const Finished verb = run_ingot({"trian"});
  EXPECT_EQ(verb.exit_code, 2);
  EXPECT_TRUE(contains(verb.err, "did you mean ingot train?")) << verb.err;
  const Finished option = run_ingot({"train", "--max-tme", "3h", "--dry-rum", "x.txt"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_TRUE(contains(option.err, "did you mean --max-time?")) << option.err;
  EXPECT_TRUE(contains(option.err, "did you mean --dry-run?")) << "all mistakes at once: " << option.err;
}

TEST(CommandLine, ConfigurationMistakesAreReportedAllAtOnceAndNothingIsStarted) {
  const TestFolder folder;
  write(folder / "run.toml",
        "[train]\nmicro_batchsize = 4\n[model]\nfamily = \"gpt2\"\nn_embd = 384\nn_head = 5\n");
  const Finished finished = run_ingot({"train", "run.toml"}, {.folder = folder.path(), .environment = {}});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_TRUE(contains(finished.err, "run.toml:2")) << finished.err;
  EXPECT_TRUE(contains(finished.err, "micro_batch_size")) << finished.err;
  EXPECT_TRUE(contains(finished.err, "n_head")) << finished.err;
  EXPECT_TRUE(contains(finished.err, "nothing was started")) << finished.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
}

TEST(CommandLine, MissingAndEmptyCorporaGetASentence) {
  const TestFolder folder;
  const Finished missing =
      run_ingot({"train", "no-such-book.txt"}, {.folder = folder.path(), .environment = {}});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(contains(missing.err, "no-such-book.txt")) << missing.err;
  write(folder / "empty.txt", "");
  const Finished empty = run_ingot({"train", "empty.txt"}, {.folder = folder.path(), .environment = {}});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_TRUE(contains(empty.err, "empty.txt")) << empty.err;
}

TEST(CommandLine, JsonLinesWithoutTheFieldNameTheFieldsThatAreThere) {
  const TestFolder folder;
  write(folder / "a.jsonl", "{\"body\": \"hello\"}\n{\"body\": \"world\"}\n");
  const Finished finished = run_ingot({"data", "build", "--tokenizer", "bytes", "--out", "data", "a.jsonl"},
                                      {.folder = folder.path(), .environment = {}});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_TRUE(contains(finished.err, "body")) << finished.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "data"));
  EXPECT_TRUE(contains(finished.err, "--text-field body")) << finished.err;
  const Finished train =
      run_ingot({"train", "a.jsonl", "--set", "train.train_steps=1"},
                {.folder = folder.path(), .environment = {"INGOT_CACHE=" + (folder / "c")}});
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_TRUE(contains(train.err, "--set data.text_field=body")) << train.err;
}

TEST(CommandLine, DataBuildInfoAndCatWorkTogether) {
  const TestFolder folder;
  write(folder / "a.jsonl", "{\"text\": \"hello world\"}\n{\"text\": \"second one\"}\n");
  const RunOptions in{.folder = folder.path(), .environment = {}};
  ASSERT_EQ(
      run_ingot({"data", "build", "--tokenizer", "bytes", "--validation", "0", "--out", "d", "a.jsonl"}, in)
          .exit_code,
      0);
  const Finished info = run_ingot({"data", "info", "d", "--verify"}, in);
  EXPECT_EQ(info.exit_code, 0) << info.err;
  const Finished cat = run_ingot({"data", "cat", "d", "--document", "1"}, in);
  EXPECT_TRUE(contains(cat.out, "second one")) << cat.out << cat.err;
}

TEST(CommandLine, OutputThatCannotBeWrittenIsAFailureInWords) {
  const TestFolder folder;
  write(folder / "book.txt", "some text\n");
  const RunOptions here{.folder = folder.path()};
  ASSERT_EQ(
      run_ingot({"data", "build", "--tokenizer", "bytes", "--validation", "0", "--out", "d", "book.txt"},
                here)
          .exit_code,
      0);
  const std::vector<std::vector<std::string>> commands = {{"--help"},
                                                          {"--version"},
                                                          {"train", "--help"},
                                                          {"train", "book.txt", "--dump-config"},
                                                          {"data", "info", "d"},
                                                          {"data", "info", "d", "--json"},
                                                          {"data", "cat", "d"},
                                                          {"data", "tokenizer", "info", "bytes"},
                                                          {"data", "tokenizer", "info", "bytes", "--json"}};
  for (const auto& words : commands) {
    RunOptions full = here;
    full.output = "/dev/full";
    const Finished finished = run_ingot(words, full);
    EXPECT_EQ(finished.exit_code, 1) << words.back();
    EXPECT_TRUE(contains(finished.err, "standard output cannot be written")) << words.back() << finished.err;
  }
}

TEST(CommandLine, VerbsThatNeedARunSayWhatIsMissing) {
  const TestFolder folder;
  for (const char* verb : {"eval", "generate", "verify"}) {
    const Finished finished = run_ingot({verb, "nowhere"}, {.folder = folder.path(), .environment = {}});
    EXPECT_EQ(finished.exit_code, 2) << verb;
    EXPECT_TRUE(contains(finished.err, "nowhere is not a run")) << verb << ": " << finished.err;
  }
}

}  // namespace
}  // namespace ingot::testing
