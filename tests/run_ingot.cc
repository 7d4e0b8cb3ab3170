#include "run_ingot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace ingot::testing {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

[[noreturn]] void become_ingot(const std::vector<std::string>& arguments, const RunOptions& options,
                               const std::string& out, const std::string& err) {
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
  for (const std::string& pair : options.environment) ::putenv(const_cast<char*>(pair.c_str()));
  const int out_fd = ::open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  const int err_fd = ::open(err.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  const int in_fd = ::open("/dev/null", O_RDONLY);
  ::dup2(in_fd, 0);
  ::dup2(out_fd, 1);
  ::dup2(err_fd, 2);
  std::vector<std::string> all = options.before;
  all.emplace_back(INGOT_BINARY);
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& word : all) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

}  // namespace

Finished run_ingot(const std::vector<std::string>& arguments, const RunOptions& options) {
  const TestFolder outputs;
  const std::string out = options.output.empty() ? outputs / "out" : options.output, err = outputs / "err";
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) become_ingot(arguments, options, out, err);
  std::thread killer, beside;
  if (options.beside) beside = std::thread([&] { options.beside(child); });
  if (options.kill_after_ms >= 0) {
    killer = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(options.kill_after_ms));
      ::kill(child, options.signal);
    });
  }
  int status = 0;
  // A child that has ended stays a zombie until reaped, so the killer can never hit another process.
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  if (killer.joinable()) killer.join();
  if (beside.joinable()) beside.join();
  ::waitpid(child, &status, 0);
  Finished finished;
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.output.empty()) finished.out = content_of(out);
  finished.err = content_of(err);
  return finished;
}

std::string made_up_text(size_t bytes) {
  static const char* const kWords[] = {"the",   "system",   "is",      "a",     "network", "of",
                                       "small", "machines", "that",    "learn", "words",   "from",
                                       "text",  "and",      "each",    "one",   "sends",   "its",
                                       "state", "to",       "another", "when",  "it",      "changes"};
  std::string text;
  uint32_t state = 12345;
  int in_sentence = 0;
  while (text.size() < bytes) {
    state = state * 1664525U + 1013904223U;
    text += kWords[(state >> 24) % (sizeof(kWords) / sizeof(kWords[0]))];
    text += ++in_sentence % 9 == 0 ? ".\n" : " ";
  }
  return text;
}

}  // namespace ingot::testing
