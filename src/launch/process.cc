#include "launch/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

extern char** environ;

namespace ingot::launch {
namespace {

constexpr int kCannotExecute = 127;

std::string system_message(int error) { return std::generic_category().message(error); }

// In the child: its life ends with that of `parent`, a terminal's signals pass it by, and it takes signals as
// a fresh process does.
void become_child(pid_t parent) {
  (void)::setpgid(0, 0);
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotExecute);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void replace_outputs(const std::string& path) {
  const int in = ::open("/dev/null", O_RDONLY);
  (void)::dup2(in, STDIN_FILENO);
  if (path.empty()) return;
  const int out = ::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0666);
  if (out < 0) return;
  (void)::dup2(out, STDOUT_FILENO);
  (void)::dup2(out, STDERR_FILENO);
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> joined_environment(const std::vector<std::string>& over) {
  std::vector<std::string> all = over;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('=') + 1);
    const bool replaced =
        std::any_of(over.begin(), over.end(), [&](const std::string& one) { return one.starts_with(name); });
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

}  // namespace

std::string describe(const Ending& ending) {
  if (ending.signal == 0) return fmt::format("ended with exit code {}", ending.code);
  return fmt::format("was ended by signal {} ({})", ending.signal,
                     ::strsignal(ending.signal));  // NOLINT(concurrency-mt-unsafe)
}

Result<Process> Process::adopt(pid_t pid) {
  (void)::setpgid(pid, pid);  // here too: it may not have run yet
  Descriptor descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (descriptor.is_open()) return Process(pid, std::move(descriptor));
  const std::string reason = system_message(errno);
  (void)::kill(pid, SIGKILL);
  (void)::waitpid(pid, nullptr, 0);
  return io_error(fmt::format("cannot watch process {}: {}", pid, reason));
}

Result<Process> Process::start(const Command& command) {
  std::vector<std::string> words = command.words, environment = joined_environment(command.environment);
  const std::vector<char*> word_pointers = pointers_to(words),
                           environment_pointers = pointers_to(environment);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return io_error("cannot start another process: " + system_message(errno));
  if (child > 0) return adopt(child);
  become_child(parent);
  replace_outputs(command.output);
  if (!command.cpus.empty()) (void)bind_to(command.cpus);
  if (command.kept_descriptor >= 0) (void)::fcntl(command.kept_descriptor, F_SETFD, 0);
  (void)::execve(word_pointers[0], word_pointers.data(), environment_pointers.data());
  ::_exit(kCannotExecute);
}

Result<bool> Process::fork_self(const Cpus& cpus, std::optional<Process>* child) {
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) return io_error("cannot start another process: " + system_message(errno));
  if (pid == 0) {
    become_child(parent);
    if (!cpus.empty()) (void)bind_to(cpus);
    return true;
  }
  INGOT_TRY(Process adopted, adopt(pid));
  child->emplace(std::move(adopted));
  return false;
}

std::optional<Ending> Process::ended() {
  if (ending_) return ending_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
    return std::nullopt;
  ending_ = info.si_code == CLD_EXITED ? Ending{.code = info.si_status} : Ending{.signal = info.si_status};
  return ending_;
}

void Process::signal(int number) const {
  if (!ending_) (void)::syscall(SYS_pidfd_send_signal, descriptor_.get(), number, nullptr, 0);
}

char Process::state() const {
  if (ending_) return 0;
  std::array<char, 512> text{};
  const Descriptor file(::open(fmt::format("/proc/{}/stat", pid_).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return 0;
  const ssize_t bytes = ::read(file.get(), text.data(), text.size() - 1);
  // "4711 (name) S ...": the name may hold anything, the last parenthesis ends it.
  const char* end = bytes > 0 ? std::strrchr(text.data(), ')') : nullptr;
  return end != nullptr && end[1] == ' ' ? end[2] : '\0';
}

}  // namespace ingot::launch
