#include "launch/agent.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "base/clock.h"

namespace ingot::launch {
namespace {

using comm::RankState;

constexpr double kLimit = 0.6;  // seconds

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// A rank that waits for `peer` as a healthy one does: its heart beats, and at twice the limit it gives up.
[[noreturn]] void wait_and_give_up(const Board& board, int slot, int peer) {
  comm::ProgressPage& page = board.page(slot);
  page.limit_ns.store(static_cast<int64_t>(kLimit * 1e9));
  page.peer.store(peer);
  page.step.store(5);
  page.instruction.store(88);
  page.say("all_reduce", "gradients");
  page.state.store(RankState::kWaiting);
  const int64_t begin = monotonic_ns();
  page.time_ns.store(begin);
  while (monotonic_ns() - begin < static_cast<int64_t>(2e9 * kLimit)) {
    page.heartbeat_ns.store(monotonic_ns());
    sleep_ms(20);
  }
  ::_exit(4);
}

using Body = std::function<void(const Board&, int slot)>;

struct World {
  explicit World(int ranks) : board(std::move(*Board::create(ranks))) {}

  void start(const Body& body) {
    std::optional<Process> child;
    const auto in_child = Process::fork_self({}, &child);
    ASSERT_TRUE(in_child);
    if (*in_child) {
      body(board, static_cast<int>(processes.size()));
      ::_exit(0);
    }
    processes.push_back(std::move(*child));
  }

  AgentResult watch(int world = 0, std::vector<int> ranks = {}, const std::string& address = "",
                    const std::string& node = "vm") {
    AgentOptions options;
    if (ranks.empty()) {
      for (size_t i = 0; i < processes.size(); ++i) ranks.push_back(static_cast<int>(i));
    }
    options.world = world > 0 ? world : static_cast<int>(ranks.size());
    options.ranks = ranks;
    options.node = node;
    options.watch_address = address;
    options.voice.warn = [&](const std::string& text) { warnings.push_back(text); };
    options.voice.fault = [&](const Verdict& verdict, const std::string& dir) {
      told = verdict.sentence;
      run_dir = dir;
    };
    std::vector<pid_t> pids;
    for (const Process& process : processes) pids.push_back(process.pid());
    const int64_t begin = monotonic_ns();
    AgentResult result = watch_ranks(options, board, std::move(processes), signals);
    seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
    for (const pid_t pid : pids) EXPECT_NE(::kill(pid, 0), 0) << "process " << pid << " is left";
    return result;
  }

  AgentSignals signals;
  Board board;
  std::vector<Process> processes;
  std::vector<std::string> warnings;
  std::string told, run_dir;
  double seconds = 0;
};

TEST(Agent, AllInOrder) {
  World world(3);
  for (const int code : {0, 3, 0}) world.start([code](const Board&, int) { ::_exit(code); });
  const AgentResult result = world.watch();
  EXPECT_EQ(result.code, 3);
  EXPECT_FALSE(result.verdict);
}

TEST(Agent, ADeathIsNamedAndTheOthersEndWithIt) {
  World world(3);
  for (int rank = 0; rank < 3; ++rank)
    world.start([rank](const Board& board, int slot) {
      board.note(slot).set_run_dir("runs/a");
      if (rank == 1) {
        sleep_ms(100);
        ::raise(SIGKILL);
      }
      for (;;) ::pause();
    });
  const AgentResult result = world.watch();
  EXPECT_EQ(result.code, 4);
  ASSERT_TRUE(result.verdict);
  EXPECT_EQ(result.verdict->rank, 1);
  EXPECT_EQ(result.verdict->sentence.substr(0, 56),
            "rank 1 (vm, local 1) was ended by signal 9 (Killed); if ");
  EXPECT_EQ(world.told, result.verdict->sentence);
  EXPECT_EQ(world.run_dir, "runs/a");
  EXPECT_TRUE(result.told);
  EXPECT_LT(world.seconds, 1);
}

TEST(Agent, AnExitCodeOfOneIsThatOfAll) {
  World world(2);
  for (const int code : {0, 2})
    world.start([code](const Board&, int) {
      if (code != 0) ::_exit(code);
      for (;;) ::pause();
    });
  const AgentResult result = world.watch();
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.verdict->sentence, "rank 1 (vm, local 1) ended with exit code 2");
}

TEST(Agent, AStoppedRankIsWarnedOfNamedAndKilled) {
  World world(3);
  world.start([](const Board& board, int slot) { wait_and_give_up(board, slot, 2); });
  world.start([](const Board& board, int slot) {
    board.page(slot).state.store(RankState::kWaiting);  // of a collective in which it was stopped
    board.page(slot).heartbeat_ns.store(monotonic_ns());
    ::raise(SIGSTOP);
  });
  world.start([](const Board& board, int slot) { wait_and_give_up(board, slot, 1); });
  const AgentResult result = world.watch();
  EXPECT_EQ(result.code, 4);
  ASSERT_TRUE(result.verdict);
  EXPECT_EQ(result.verdict->rank, 1) << result.verdict->sentence;
  EXPECT_NE(result.verdict->sentence.find("has not arrived at all_reduce #88 (gradients) of step 5"),
            std::string::npos)
      << result.verdict->sentence;
  ASSERT_EQ(world.warnings.size(), 1U);
  EXPECT_NE(world.warnings[0].find("It is stopped"), std::string::npos) << world.warnings[0];
  EXPECT_LT(world.seconds, 2 * kLimit + 2);
}

TEST(Agent, SignalsAreForwarded) {
  World world(2);
  for (int rank = 0; rank < 2; ++rank)
    world.start([rank](const Board&, int) {
      sigset_t set;
      sigemptyset(&set);
      for (const int number : {SIGTERM, SIGUSR1}) sigaddset(&set, number);
      ::sigprocmask(SIG_BLOCK, &set, nullptr);
      sleep_ms(200);  // the other one blocks them too
      if (rank == 0) ::kill(::getppid(), SIGUSR1);
      int number = 0;
      ::sigwait(&set, &number);
      if (number != SIGUSR1) ::_exit(1);
      if (rank == 0) ::kill(::getppid(), SIGINT);
      ::sigwait(&set, &number);
      ::_exit(number == SIGTERM ? 3 : 1);
    });
  const AgentResult result = world.watch();
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.by_signal, 0);
  EXPECT_FALSE(result.verdict);
}

// As a user who does not want to wait for the save.
TEST(Agent, ASecondInterruptEndsAllAtOnce) {
  World world(2);
  for (int rank = 0; rank < 2; ++rank)
    world.start([rank](const Board&, int) {
      ::signal(SIGTERM, SIG_IGN);
      sleep_ms(200);
      if (rank == 0) ::kill(::getppid(), SIGINT);
      sleep_ms(200);
      if (rank == 0) ::kill(::getppid(), SIGINT);
      for (;;) ::pause();
    });
  const AgentResult result = world.watch();
  EXPECT_EQ(result.by_signal, SIGINT);
  EXPECT_FALSE(result.verdict);
  EXPECT_LT(world.seconds, 2);
}

// Two agents of one rank each, as under a launcher of another kind: this process and a child of it.
class TwoAgents : public ::testing::Test {
 protected:
  ~TwoAgents() override { ::unlink(address_.c_str()); }  // of a hub that was killed

  std::string address_ = "/tmp/ingot-agent-test-" + std::to_string(::getpid()) + ".watch";

  // Runs the agent of rank 1 in a child, with `body` as its rank; its exit code is the agent's.
  pid_t other_agent(const Body& body) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    World world(1);
    world.start(body);
    const AgentResult result = world.watch(2, {1}, address_, "node-1");
    ::_exit(world.told.empty() ? result.code : 100);
  }
  AgentResult own_agent(const Body& body) {
    World world(1);
    world.start(body);
    const AgentResult result = world.watch(2, {0}, address_, "node-0");
    warnings_ = world.warnings;
    return result;
  }
  static int code_of(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::vector<std::string> warnings_;
};

TEST_F(TwoAgents, LeaveTogether) {
  const pid_t other = other_agent([](const Board&, int) {});
  const AgentResult result = own_agent([](const Board&, int) {
    sleep_ms(300);
    ::_exit(3);
  });
  EXPECT_EQ(result.code, 3);
  EXPECT_FALSE(result.verdict);
  EXPECT_EQ(code_of(other), 0);
  EXPECT_NE(::access(address_.c_str(), F_OK), 0) << "the socket is left";
}

TEST_F(TwoAgents, ADeathElsewhereIsToldByTheHub) {
  const pid_t other = other_agent([](const Board& board, int slot) {
    board.page(slot).step.store(9);
    sleep_ms(300);
    ::raise(SIGKILL);
  });
  const AgentResult result = own_agent([](const Board&, int) {
    for (;;) ::pause();
  });
  EXPECT_EQ(result.code, 4);
  ASSERT_TRUE(result.verdict);
  EXPECT_EQ(result.verdict->sentence.substr(0, 64),
            "rank 1 (node-1, local 0) was ended by signal 9 (Killed) in step ");
  EXPECT_EQ(code_of(other), 4) << "and it says nothing itself";
}

TEST_F(TwoAgents, ADeathHereEndsTheOthers) {
  const pid_t other = other_agent([](const Board&, int) {
    for (;;) ::pause();
  });
  const AgentResult result = own_agent([](const Board&, int) {
    sleep_ms(500);
    ::_exit(1);
  });
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(code_of(other), 1);
}

TEST_F(TwoAgents, AnAgentThatIsKilledIsMissed) {
  const pid_t other = other_agent([](const Board&, int) {
    for (;;) ::pause();
  });
  const AgentResult result = own_agent([other](const Board&, int) {
    sleep_ms(1500);
    ::kill(other, SIGKILL);
    for (;;) ::pause();
  });
  EXPECT_EQ(result.code, 4);
  ASSERT_TRUE(result.verdict);
  EXPECT_EQ(result.verdict->sentence,
            "the process that watches rank 1 (node-1, local 0) is gone, and its rank with it");
  EXPECT_EQ(code_of(other), 128 + SIGKILL);
}

TEST_F(TwoAgents, AStoppedRankElsewhereIsNamedAndKilledThere) {
  const pid_t other = other_agent([](const Board& board, int slot) {
    board.page(slot).heartbeat_ns.store(monotonic_ns());
    ::raise(SIGSTOP);
  });
  const AgentResult result =
      own_agent([](const Board& board, int slot) { wait_and_give_up(board, slot, 1); });
  EXPECT_EQ(result.code, 4);
  ASSERT_TRUE(result.verdict);
  EXPECT_EQ(result.verdict->rank, 1) << result.verdict->sentence;
  EXPECT_EQ(code_of(other), 4);
}

// The agent of rank 1 is stopped, as one behind a cut link is silent: both nodes are named.
TEST_F(TwoAgents, ASilentNodeIsNamedAsAPair) {
  const pid_t other = other_agent([](const Board&, int) {
    for (;;) ::pause();
  });
  const AgentResult result = own_agent([other](const Board& board, int slot) {
    sleep_ms(1200);
    ::kill(other, SIGSTOP);
    sleep_ms(3000);
    wait_and_give_up(board, slot, 1);
  });
  ::kill(other, SIGKILL);
  EXPECT_EQ(code_of(other), 128 + SIGKILL);
  EXPECT_EQ(result.code, 4);
  ASSERT_TRUE(result.verdict);
  EXPECT_NE(result.verdict->sentence.find("node-0 and node-1 do not reach each other"), std::string::npos)
      << result.verdict->sentence;
}

// And so does the other side, from which rank 0's agent is silent.
TEST_F(TwoAgents, ASilentHubIsNamedAsAPair) {
  const pid_t hub = ::fork();
  if (hub == 0) {
    own_agent([](const Board&, int) {
      for (;;) ::pause();
    });
    ::_exit(0);
  }
  World world(1);
  world.start([hub](const Board& board, int slot) {
    sleep_ms(1500);
    ::kill(hub, SIGSTOP);
    sleep_ms(3200);
    wait_and_give_up(board, slot, 0);
  });
  const AgentResult result = world.watch(2, {1}, address_, "node-1");
  ::kill(hub, SIGKILL);
  (void)code_of(hub);
  EXPECT_EQ(result.code, 4);
  ASSERT_TRUE(result.verdict);
  EXPECT_EQ(world.told, result.verdict->sentence);
  EXPECT_EQ(result.verdict->sentence.substr(0, 47), "node-1 and node-0 do not reach each other: the ");
}

}  // namespace
}  // namespace ingot::launch
