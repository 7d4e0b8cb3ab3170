#include "comm/process_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <thread>
#include <vector>

#include "base/socket.h"

namespace ingot::comm {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLimit{240};

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) names.insert(entry.path().filename().string());
  return names;
}

// Of other tests that run beside this one, perhaps.
bool in_use(const std::string& name) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream maps(entry.path() / "maps");
    for (std::string line; std::getline(maps, line);)
      if (line.find("/dev/shm/" + name) != std::string::npos) return true;
  }
  return false;
}

// Its standard output and error go to `log`; it dies with this process and leads a group of its own.
pid_t start(const std::vector<std::string>& words, const fs::path& log) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  const int out = open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// Its exit status, 128 + signal, or -1 when it had to be killed at the deadline.
int wait_for(pid_t pid, Deadline deadline) {
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (milliseconds_until(deadline) == 0) {
      kill(-pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int start_process_ranks(const std::string& transport, int world, const char* program, char** flags) {
  const std::set<std::string> before = shared_memory();
  const fs::path folder = fs::temp_directory_path() / fmt::format("ingot-ranks-{}", getpid());
  fs::create_directories(folder);
  std::vector<std::vector<std::string>> commands;
  if (transport == "mpi") {
    commands.push_back({"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", std::to_string(world),
                        program, "--rank", "mpi", "-", "-", "-"});
  } else {
    for (int rank = 0; rank < world; ++rank)
      commands.push_back({program, "--rank", transport, std::to_string(rank), std::to_string(world),
                          (folder / "meet").string()});
  }
  std::vector<pid_t> processes;
  for (size_t i = 0; i < commands.size(); ++i) {
    for (char** flag = flags; *flag != nullptr; ++flag) commands[i].push_back(*flag);
    processes.push_back(start(commands[i], folder / fmt::format("log-{}", i)));
  }
  const Deadline deadline = deadline_after(kLimit);
  int failed = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    const int status = wait_for(processes[i], deadline);
    if (status != 0) ++failed;
    if (status != 0 || i == 0)
      std::cout << fmt::format("== process {}: exit {}\n", i, status)
                << std::ifstream(folder / fmt::format("log-{}", i)).rdbuf() << '\n';
  }
  fs::remove_all(folder);
  for (const std::string& name : shared_memory()) {
    if (before.contains(name) || in_use(name)) continue;
    std::cout << "left over: /dev/shm/" << name << '\n';
    ++failed;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace ingot::comm
