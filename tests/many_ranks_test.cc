// Runs of several processes, as a user starts them: what is promised when all goes well, when a rank dies or
// hangs, and when one rank differs.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "base/test_folder.h"
#include "run_ingot.h"

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;

constexpr double kLimit = 2;  // comm_timeout, seconds
// After twice the limit the ranks leave; agents report each second, and a second later what is left is ended.
constexpr double kAllGone = 2 * kLimit + 3;

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

struct RankProcess {
  int pid = 0, rank = -1;
};

std::set<int> all_pids() {
  std::set<int> pids;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.insert(std::stoi(name));
  }
  return pids;
}

int parent_of(int pid) {
  const std::string text = content_of("/proc/" + std::to_string(pid) + "/stat");
  const size_t end = text.rfind(") ");
  return end == std::string::npos ? 0 : std::atoi(text.c_str() + end + 4);
}

bool is_ingot(int pid) {
  std::error_code failed;
  return fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", failed) == fs::path(INGOT_BINARY);
}

int rank_of(int pid) {
  std::istringstream words(content_of("/proc/" + std::to_string(pid) + "/environ"));
  for (std::string word; std::getline(words, word, '\0');) {
    for (const std::string name : {"INGOT_RANK=", "OMPI_COMM_WORLD_RANK="}) {
      if (word.starts_with(name)) return std::stoi(word.substr(name.size()));
    }
  }
  return -1;
}

// The processes below `above` that are ranks: those of the binary that have none of it below them.
std::vector<RankProcess> ranks_below(int above) {
  std::vector<int> found;
  std::set<int> parents;
  for (const int pid : all_pids()) {
    if (!is_ingot(pid)) continue;
    for (int up = parent_of(pid); up > 1; up = parent_of(up)) {
      if (up != above) continue;
      found.push_back(pid);
      parents.insert(parent_of(pid));
    }
  }
  std::vector<RankProcess> ranks;
  for (const int pid : found) {
    if (!parents.contains(pid)) ranks.push_back({pid, rank_of(pid)});
  }
  return ranks;
}

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) names.insert(entry.path().filename());
  return names;
}

// A small run in a folder of its own.
class ManyRanks : public ::testing::Test {
 protected:
  ManyRanks() {
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
micro_batch_size = 1
train_steps = 20
log_interval = 1
[optimizer]
learning_rate = 3e-3
[parallel]
comm_timeout = 2
[checkpoint]
save_interval = 4
keep_last = 2
[eval]
eval_interval = 1000
)";
  }
  ~ManyRanks() override {
    // What a run made in shared memory goes with it, if not at once.
    for (int i = 0; i < 100 && !left_in_shared_memory().empty(); ++i) sleep_ms(100);
    EXPECT_EQ(left_in_shared_memory(), "");
    for (const int pid : all_pids()) {
      std::error_code failed;
      if (!is_ingot(pid)) continue;
      const fs::path cwd = fs::read_symlink("/proc/" + std::to_string(pid) + "/cwd", failed);
      if (cwd != fs::path(folder_.path())) continue;
      ADD_FAILURE() << "process " << pid << " is left";
      ::kill(pid, SIGKILL);
    }
  }

  Finished run(std::vector<std::string> words, RunOptions options = {}) const {
    options.folder = folder_.path();
    options.environment.push_back("INGOT_CACHE=" + (folder_ / "cache"));
    options.environment.push_back("INGOT_NODE=here");
    return run_ingot(words, options);
  }
  int finished_steps(const std::string& dir) const {
    const std::string text = content_of(folder_ / (dir + "/metrics.jsonl"));
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  // Waits until the run has made so many steps; false where it does not within half a minute.
  bool wait_for_step(const std::string& dir, int step) const {
    for (int i = 0; i < 3000 && finished_steps(dir) < step; ++i) sleep_ms(10);
    return finished_steps(dir) >= step;
  }
  std::string left_in_shared_memory() const {
    std::string left;
    for (const std::string& name : shared_memory()) left += before_.contains(name) ? "" : name + " ";
    return left;
  }

  const TestFolder folder_;
  const std::set<std::string> before_ = shared_memory();
};

std::vector<std::string> mpirun(int ranks) {
  return {"mpirun",    "-n",  std::to_string(ranks), "--oversubscribe", "--allow-run-as-root",
          "--bind-to", "none"};
}

TEST_F(ManyRanks, EightRanksOnAFewCoresMakeTwentySteps) {
  const Finished finished = run({"launch", "-n", "8", "run.toml", "--run-dir", "run"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished_steps("run"), 20);
  EXPECT_LT(finished.seconds, 10);
  EXPECT_EQ(content_of(folder_ / "run/logs/rank-0007.log"), "") << "others say nothing";
}

TEST_F(ManyRanks, RanksOfALayoutWithoutANumber) {
  const Finished finished =
      run({"launch", "run.toml", "--run-dir", "run", "--set", "parallel.dp=2", "--set", "parallel.tp=2"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(fs::exists(folder_ / "run/logs/rank-0003.log"));
  EXPECT_FALSE(fs::exists(folder_ / "run/logs/rank-0004.log"));
}

TEST_F(ManyRanks, TheSameLossesAsOneProcess) {
  ASSERT_EQ(run({"train", "run.toml", "--run-dir", "one", "--set", "run.precision=fp32"}).exit_code, 0);
  ASSERT_EQ(
      run({"launch", "-n", "2", "run.toml", "--run-dir", "two", "--set", "run.precision=fp32"}).exit_code, 0);
  const auto losses = [&](const std::string& dir) {
    std::vector<double> values;
    std::istringstream lines(content_of(folder_ / (dir + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      values.push_back(std::stod(line.substr(line.find("\"loss\":") + 7)));
    return values;
  };
  const std::vector<double> one = losses("one"), two = losses("two");
  ASSERT_EQ(one.size(), 20U);
  ASSERT_EQ(two.size(), 20U);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-3) << "step " << i + 1;
}

// One rank dies or is stopped at a random step: all end within the limit, it is named, the exit code is 4, no
// process stays, the last checkpoint is whole.
struct Harm {
  std::string name;
  int signal;
  std::vector<std::string> before, words;
};

class HarmedRank : public ManyRanks, public ::testing::WithParamInterface<Harm> {};

TEST_P(HarmedRank, IsNamedAndAllEnd) {
  std::random_device device;
  const int victim = static_cast<int>(device() % 4), step = 5 + static_cast<int>(device() % 20);
  SCOPED_TRACE("rank " + std::to_string(victim) + " after step " + std::to_string(step));
  std::vector<std::string> words = GetParam().words;
  words.insert(words.end(), {"run.toml", "--run-dir", "run", "--set", "train.train_steps=1000000"});
  std::chrono::steady_clock::time_point harmed;
  RunOptions options;
  options.before = GetParam().before;
  options.beside = [&](int pid) {
    const bool began = wait_for_step("run", step);
    EXPECT_TRUE(began) << "it does not train";
    for (const RankProcess& one : ranks_below(pid)) {
      if (began && one.rank == victim) ::kill(one.pid, GetParam().signal);
      if (!began) ::kill(one.pid, SIGKILL);
    }
    harmed = std::chrono::steady_clock::now();
  };
  const Finished finished = run(words, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - harmed).count();
  const bool stopped = GetParam().signal == SIGSTOP;
  EXPECT_EQ(finished.exit_code, 4) << finished.err;
  EXPECT_LT(seconds, stopped ? kAllGone : 2.5);
  const std::string name = "rank " + std::to_string(victim) + " (here, local ";
  EXPECT_TRUE(contains(finished.err, stopped ? "gave up: " + name : "error    " + name)) << finished.err;
  EXPECT_TRUE(contains(finished.err, stopped ? "It is stopped" : "was ended by signal 9 (Killed)"))
      << finished.err;
  EXPECT_TRUE(contains(finished.err, "Last checkpoint: step ")) << finished.err;
  const Finished verified = run({"verify", "run"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

std::vector<Harm> harms() {
  std::vector<Harm> all;
  for (const auto& [name, signal] : {std::pair{"Killed", SIGKILL}, std::pair{"Stopped", SIGSTOP}}) {
    all.push_back({std::string(name) + "UnderLaunch", signal, {}, {"launch", "-n", "4"}});
    all.push_back({std::string(name) + "UnderMpirunOverUcx", signal, mpirun(4), {"train"}});
    all.push_back(
        {std::string(name) + "UnderMpirunOverMpi", signal, mpirun(4), {"train", "--transport", "mpi"}});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, HarmedRank, ::testing::ValuesIn(harms()),
                         [](const auto& one) { return one.param.name; });

TEST_F(ManyRanks, AnInterruptStopsAllAfterTheSameStepAndTheRunGoesOn) {
  RunOptions options;
  options.beside = [&](int pid) {
    wait_for_step("run", 6);
    ::kill(pid, SIGINT);
  };
  const std::vector<std::string> words = {"launch", "-n", "2", "run.toml", "--run-dir", "run"};
  std::vector<std::string> longer = words;
  longer.insert(longer.end(), {"--set", "train.train_steps=1000000"});
  const Finished stopped = run(longer, options);
  EXPECT_EQ(stopped.exit_code, 3) << stopped.err;
  const int steps = finished_steps("run");
  EXPECT_TRUE(contains(stopped.out, "stopped ")) << stopped.out;
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--set", "train.train_steps=" + std::to_string(steps + 5)});
  const Finished went_on = run(more);
  EXPECT_EQ(went_on.exit_code, 0) << went_on.err;
  EXPECT_TRUE(contains(went_on.out, "resume ")) << went_on.out;
  EXPECT_EQ(finished_steps("run"), steps + 5);
}

TEST_F(ManyRanks, OneRankIsAskedToSaveAndAllDo) {
  RunOptions options;
  options.beside = [&](int pid) {
    if (wait_for_step("run", 5)) {
      for (const RankProcess& one : ranks_below(pid)) {
        if (one.rank == 1) ::kill(one.pid, SIGUSR2);
      }
      for (int i = 0; i < 500 && !fs::exists(folder_ / "run/checkpoints"); ++i) sleep_ms(10);
    }
    ::kill(pid, SIGUSR1);
  };
  const Finished finished = run({"launch", "-n", "2", "run.toml", "--run-dir", "run", "--set",
                                 "train.train_steps=1000000", "--set", "checkpoint.save_interval=1000000"},
                                options);
  EXPECT_EQ(finished.exit_code, 3) << finished.err;
  const auto checkpoints = std::distance(fs::directory_iterator(folder_ / "run/checkpoints"), {});
  EXPECT_EQ(checkpoints, 2) << "one that was asked for, one at the end";
}

// Two ranks started by hand, the second one with other words.
class OneDiffers : public ManyRanks {
 protected:
  std::pair<Finished, Finished> run_two(const std::vector<std::string>& more,
                                        const std::vector<std::string>& environment = {}) {
    std::pair<Finished, Finished> both;
    const auto start = [&](int rank) {
      RunOptions options;
      options.environment = {"INGOT_RANK=" + std::to_string(rank), "INGOT_WORLD=2",
                             "INGOT_ADDRESS=" + (folder_ / "meet")};
      std::vector<std::string> words = {"train", "run.toml", "--run-dir", "run"};
      if (rank == 1) {
        words.insert(words.end(), more.begin(), more.end());
        options.environment.insert(options.environment.end(), environment.begin(), environment.end());
      }
      return run(words, options);
    };
    std::thread other([&] { both.second = start(1); });
    both.first = start(0);
    other.join();
    return both;
  }
};

TEST_F(OneDiffers, TheSameWordsTrain) {
  const auto [first, second] = run_two({});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.out, "") << "only rank 0 speaks";
  EXPECT_EQ(finished_steps("run"), 20);
}

TEST_F(OneDiffers, AnotherConfigurationIsRefusedByName) {
  const auto [first, second] = run_two({"--set", "optimizer.learning_rate=1e-3"});
  EXPECT_EQ(first.exit_code, 2) << first.err;
  EXPECT_EQ(second.exit_code, 2) << second.err;
  EXPECT_TRUE(contains(first.err,
                       "rank 1 has another configuration than the others: there "
                       "optimizer.learning_rate = 0.001"))
      << first.err;
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "nothing was started";
}

TEST_F(OneDiffers, AnotherDataSetIsRefusedByName) {
  // The same path, but of another machine: here a folder in which rank 1 begins.
  fs::create_directories(folder_ / "elsewhere");
  std::ofstream(folder_ / "elsewhere/text.txt") << made_up_text(59000);
  fs::copy_file(folder_ / "run.toml", folder_ / "elsewhere/run.toml");
  std::pair<Finished, Finished> both;
  const auto start = [&](int rank) {
    RunOptions options;
    options.environment = {"INGOT_RANK=" + std::to_string(rank), "INGOT_WORLD=2",
                           "INGOT_ADDRESS=" + (folder_ / "meet"), "INGOT_CACHE=" + (folder_ / "cache")};
    options.folder = rank == 0 ? folder_.path() : folder_ / "elsewhere";
    return run_ingot({"train", "run.toml", "--run-dir", folder_ / "run"}, options);
  };
  std::thread other([&] { both.second = start(1); });
  both.first = start(0);
  other.join();
  EXPECT_EQ(both.first.exit_code, 2) << both.first.err;
  EXPECT_EQ(both.second.exit_code, 2) << both.second.err;
  EXPECT_TRUE(contains(both.first.err, "rank 1 has another data set than the others")) << both.first.err;
}

TEST_F(ManyRanks, HalfOfALaunchersWordsIsRefused) {
  RunOptions options;
  options.environment = {"RANK=1"};
  const Finished finished = run({"train", "run.toml"}, options);
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_TRUE(contains(finished.err, "RANK=1 says that this is one of many")) << finished.err;
}

}  // namespace
}  // namespace ingot::testing
