// Help and mistakes, byte for byte as a user reads them: tests/golden/cli/<name>.txt holds what a command
// prints on both outputs and its exit code. After an intended change: INGOT_WRITE_GOLDEN=1
// build/dev/bin/command_line_golden_test, then read the difference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "run_ingot.h"

namespace ingot::testing {
namespace {

constexpr size_t kWidest = 100;

using Words = std::vector<std::string>;

struct Case {
  std::string name;  // of the golden file
  Words words;
  int exit_code;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"help", {"--help"}, 0},
      {"no_words", {}, 2},
      {"help_train", {"train", "--help"}, 0},
      {"help_bench", {"bench", "--help"}, 0},
      {"help_launch", {"launch", "--help"}, 0},
      {"launch_wrong_layout", {"launch", "-n", "3", "two-ranks.toml"}, 2},
      {"launch_wrong_hosts", {"launch", "--hosts", "a:x", "two-ranks.toml"}, 2},
      {"help_data", {"data", "--help"}, 0},
      {"help_data_build", {"data", "build", "--help"}, 0},
      {"help_data_info", {"data", "info", "--help"}, 0},
      {"help_data_cat", {"data", "cat", "--help"}, 0},
      {"help_tokenizer_train", {"data", "tokenizer", "train", "--help"}, 0},
      {"help_tokenizer_info", {"data", "tokenizer", "info", "--help"}, 0},
      {"help_eval", {"eval", "--help"}, 0},
      {"help_generate", {"generate", "--help"}, 0},
      {"help_export", {"export", "--help"}, 0},
      {"help_verify", {"verify", "--help"}, 0},
      {"unknown_verb", {"trian", "book.txt"}, 2},
      {"half_a_verb", {"data", "tokenizer"}, 2},
      {"wrong_half_of_a_verb", {"data", "tokenizer", "trian"}, 2},
      {"unknown_options", {"train", "--max-tme", "3h", "--dry-rum", "book.txt"}, 2},
      {"option_without_value", {"train", "book.txt", "--set"}, 2},
      {"switch_with_value", {"train", "book.txt", "--dry-run=yes"}, 2},
      {"option_twice", {"export", "a", "--to", "b", "--to", "c"}, 2},
      {"wrong_numbers", {"generate", "a", "--temperature", "hot", "--tokens", "0", "--top-p", "3"}, 2},
      {"wrong_choices",
       {"data", "tokenizer", "train", "book.txt", "--out", "t", "--kind", "x", "--pattern", "y"},
       2},
      {"build_without_anything", {"data", "build", "--seed", "x"}, 2},
      {"train_without_text", {"train"}, 2},
      {"train_missing_files", {"train", "no-such-book.txt", "nor-this.txt"}, 2},
      {"train_missing_configuration", {"train", "no-such-run.toml"}, 2},
      {"train_empty_file", {"train", "empty.txt"}, 2},
      {"train_configuration_and_text", {"train", "book.txt", "mistakes.toml"}, 2},
      {"train_json_alone", {"train", "book.txt", "--json"}, 2},
      {"train_run_dir_below_a_file", {"train", "book.txt", "--run-dir", "book.txt/run"}, 2},
      {"train_run_dir_refused", {"train", "book.txt", "--run-dir", "/dev/null/run"}, 2},
      {"train_bad_overrides",
       {"train", "book.txt", "--set", "train", "--set", "train.train_steps=soon", "--set",
        "train.trainsteps=3", "--max-time", "3parsecs"},
       2},
      {"train_many_mistakes", {"train", "mistakes.toml"}, 2},
      {"train_not_toml", {"train", "not.toml"}, 2},
      {"train_no_budget", {"train", "book.txt", "--set", "train.train_steps=0", "--max-time", "0s"}, 2},
      {"train_run_without_configuration", {"train", "lost"}, 2},
      {"train_configuration_cut_off", {"train", "cut"}, 2},
      {"generate_configuration_cut_off", {"generate", "cut"}, 2},
      {"tokenizer_info_json", {"data", "tokenizer", "info", "bytes", "--json"}, 0},
      {"tokenizer_encode_json", {"data", "tokenizer", "info", "bytes", "--encode", "hé", "--json"}, 0},
      {"train_not_yet",
       {"train", "book.txt", "--set", "parallel.ep=2", "--set", "run.precision=fp8", "--set",
        "model.num_hidden_layers=2", "--set", "model.hidden_size=64", "--set", "model.num_attention_heads=2"},
       2},
      {"build_unknown_tokenizer", {"data", "build", "--tokenizer", "nope", "--out", "d", "book.txt"}, 2},
      {"build_out_below_a_file",
       {"data", "build", "--tokenizer", "bytes", "--out", "book.txt/d", "book.txt"},
       2},
      {"build_missing_file", {"data", "build", "--tokenizer", "bytes", "--out", "d", "no-such-book.txt"}, 2},
      {"build_wrong_field", {"data", "build", "--tokenizer", "bytes", "--out", "d", "lines.jsonl"}, 2},
      {"info_of_no_data", {"data", "info", "book.txt"}, 2},
      {"tokenizer_of_text", {"data", "tokenizer", "info", "book.txt"}, 2},
      {"eval_without_run", {"eval"}, 2},
      {"eval_of_no_run", {"eval", "nowhere"}, 2},
      {"generate_of_no_run", {"generate", "nowhere"}, 2},
      {"export_without_folder", {"export", "nowhere"}, 2},
      {"verify_of_no_run", {"verify", "nowhere"}, 2},
  };
  return kCases;
}

// What every case finds in its working folder.
void fill(const TestFolder& folder) {
  std::ofstream(folder / "book.txt") << "one line of text\nand another\n";
  std::ofstream(folder / "empty.txt") << "";
  std::ofstream(folder / "lines.jsonl") << "{\"body\": \"hello\"}\n{\"body\": \"world\"}\n";
  // Runs whose configuration is lost, with no checkpoint that has a copy.
  std::filesystem::create_directories(folder / "lost");
  std::ofstream(folder / "lost/metrics.jsonl") << "{\"step\": 1}\n";
  std::ofstream(folder / "lost/events.jsonl") << "";
  std::filesystem::create_directories(folder / "cut");
  std::ofstream(folder / "cut/config.toml")
      << "# The whole configuration of this run; docs/howto/train.md\n[run]\ndir = \"cut\"\n";
  std::ofstream(folder / "not.toml") << "[train]\ntrain_steps = ten\n";
  std::ofstream(folder / "two-ranks.toml")
      << "[data]\ntrain = \"book.txt\"\n[train]\ntrain_steps = 3\n[parallel]\ntp = 2\n";
  std::ofstream(folder / "mistakes.toml")
      << "[model]\nfamily = \"gpt2\"\nn_layer = 4\nn_embd = 384\nn_head = 5\n\n"
         "[train]\nmicro_batchsize = 4\ntrain_steps = \"soon\"\n"
         "global_batch_size = 10\nmicro_batch_size = 4\n\n"
         "[schedule]\nwarmup_steps = -3\nmin_lr = 0.1\n\n"
         "[modle]\nn_layer = 3\n";
}

std::string said(const Finished& finished) {
  std::string text = finished.out;
  if (!finished.err.empty()) text += "--- standard error\n" + finished.err;
  return text + "--- exit " + std::to_string(finished.exit_code) + "\n";
}

std::string golden_path(const std::string& name) {
  return std::string(INGOT_SOURCE_DIR) + "/tests/golden/cli/" + name + ".txt";
}

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t columns(const std::string& line) {
  return static_cast<size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

class CommandLineGolden : public ::testing::TestWithParam<Case> {};

TEST_P(CommandLineGolden, SaysTheSame) {
  const Case& one = GetParam();
  const TestFolder folder;
  fill(folder);
  const Finished finished =
      run_ingot(one.words, {.folder = folder.path(), .environment = {"INGOT_CACHE=" + (folder / "cache")}});
  const std::string text = said(finished);
  EXPECT_EQ(finished.exit_code, one.exit_code) << text;
  for (const std::string& line : lines_of(text)) EXPECT_LE(columns(line), kWidest) << line;
  EXPECT_FALSE(std::filesystem::exists(folder / "runs")) << "a mistake left a run folder behind";
  EXPECT_FALSE(std::filesystem::exists(folder / "d")) << "a mistake left a data folder behind";
  if (std::getenv("INGOT_WRITE_GOLDEN") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    std::ofstream(golden_path(one.name)) << text;
    GTEST_SKIP() << "wrote " << golden_path(one.name);
  }
  EXPECT_EQ(text, content_of(golden_path(one.name)))
      << "where the change is meant: INGOT_WRITE_GOLDEN=1 command_line_golden_test, and read git diff "
         "tests/golden/cli";
}

INSTANTIATE_TEST_SUITE_P(All, CommandLineGolden, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

TEST(CommandLineGoldenFiles, HelpFitsAScreenAndNamesEveryVerbWithAHelpOfItsOwn) {
  const std::vector<std::string> lines = lines_of(run_ingot({"--help"}).out);
  EXPECT_GE(lines.size(), 24U);
  EXPECT_LE(lines.size(), 40U);
  int verbs = 0;
  for (const std::string& line : lines) {
    if (!line.starts_with("  ingot ") || line.find("book") != std::string::npos) continue;
    ++verbs;
    std::istringstream in(line.substr(8, 24));
    Words words;
    for (std::string word; in >> word;) words.push_back(word);
    words.emplace_back("--help");
    EXPECT_TRUE(std::any_of(cases().begin(), cases().end(), [&](const Case& one) {
      return one.words == words;
    })) << line;
  }
  EXPECT_EQ(verbs, 12);
}

}  // namespace
}  // namespace ingot::testing
