#include "launch/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/file.h"

namespace ingot::launch {
namespace {

Command shell(const std::string& script) { return {.words = {"/bin/sh", "-c", script}}; }

Ending wait_for(Process& process) {
  pollfd wait{process.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 10000), 1) << "it has not ended";
  const std::optional<Ending> ending = process.ended();
  EXPECT_TRUE(ending.has_value());
  return ending.value_or(Ending{.code = -1});
}

char state_within_a_second(const Process& process, char wanted) {
  for (int i = 0; i < 100 && process.state() != wanted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return process.state();
}

TEST(Process, ToldHowItEnded) {
  auto process = Process::start(shell("exit 3"));
  ASSERT_TRUE(process);
  const Ending ending = wait_for(*process);
  EXPECT_EQ(ending.code, 3);
  EXPECT_TRUE(ending.in_order());
  EXPECT_EQ(describe(ending), "ended with exit code 3");
  EXPECT_EQ(process->state(), 0);
  auto missing = Process::start({.words = {"/no/such/program"}});
  ASSERT_TRUE(missing);
  EXPECT_EQ(wait_for(*missing).code, 127);
}

TEST(Process, ASignalIsToldByNumberAndName) {
  auto process = Process::start(shell("sleep 100"));
  ASSERT_TRUE(process);
  EXPECT_FALSE(process->ended());
  process->signal(SIGKILL);
  const Ending ending = wait_for(*process);
  EXPECT_EQ(describe(ending), "was ended by signal 9 (Killed)");
  EXPECT_FALSE(ending.in_order());
}

TEST(Process, AStoppedOneIsSeen) {
  auto process = Process::start(shell("exec sleep 100"));
  ASSERT_TRUE(process);
  EXPECT_EQ(state_within_a_second(*process, 'S'), 'S');
  process->signal(SIGSTOP);
  EXPECT_EQ(state_within_a_second(*process, 'T'), 'T');
  process->signal(SIGKILL);
  wait_for(*process);
}

TEST(Process, OutputsWordsAndBindingReachIt) {
  const std::string path = ::testing::TempDir() + "ingot-process-test.log";
  (void)remove_all(path);
  Command command =
      shell("echo $INGOT_WORD; echo aside >&2; read line; grep Cpus_allowed_list /proc/self/status");
  command.environment = {"INGOT_WORD=hello"};
  command.output = path;
  command.cpus = {allowed_cpus().front()};
  for (int i = 0; i < 2; ++i) {
    auto process = Process::start(command);
    ASSERT_TRUE(process);
    wait_for(*process);
  }
  const std::string once = "hello\naside\nCpus_allowed_list:\t" + describe(command.cpus) + "\n";
  EXPECT_EQ(*read_file(path), once + once) << "appended, not replaced";
  (void)remove_all(path);
}

// An agent that starts one process and is killed: the process must not outlive it.
TEST(Process, DiesWithItsParent) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t agent = ::fork();
  if (agent == 0) {
    auto process = Process::start(shell("exec sleep 100"));
    const pid_t child = process ? process->pid() : 0;
    (void)!::write(ends[1], &child, sizeof child);
    ::pause();
  }
  pid_t child = 0;
  ASSERT_EQ(::read(ends[0], &child, sizeof child), ssize_t{sizeof child});
  ASSERT_GT(child, 0);
  EXPECT_EQ(::getpgid(child), child) << "a process group of its own";
  ::kill(agent, SIGKILL);
  ::waitpid(agent, nullptr, 0);
  const auto alive = [&] {  // a zombie of somebody else's is dead enough
    const auto text = read_file("/proc/" + std::to_string(child) + "/stat");
    return text && text->find(") Z") == std::string::npos;
  };
  for (int i = 0; i < 300 && alive(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(alive());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Process, ForksItself) {
  std::optional<Process> child;
  const auto in_child = Process::fork_self({}, &child);
  ASSERT_TRUE(in_child);
  if (*in_child) ::_exit(::getpgid(0) == ::getpid() ? 5 : 6);
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(wait_for(*child).code, 5);
}

}  // namespace
}  // namespace ingot::launch
