#include "cli/agent_report.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cli/outcome.h"
#include "launch/rank_side.h"
#include "train/checkpointing.h"

namespace ingot::cli {
namespace {

constexpr size_t kLastLines = 6;

// The last lines of a rank's log, indented.
std::string last_words(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return "";
  size_t begin = text->size();
  for (size_t lines = 0; begin > 0 && lines <= kLastLines; --begin) lines += (*text)[begin - 1] == '\n';
  const std::string tail = text->substr(begin == 0 ? 0 : begin + 1);
  return tail.empty()
             ? ""
             : fmt::format("the end of {}:\n{}", path, tail.substr(0, tail.find_last_not_of('\n') + 1));
}

// "Last checkpoint: step 41,000 (6:12 ago). "
std::string last_checkpoint(const std::string& run_dir) {
  if (run_dir.empty()) return "";
  const auto steps = checkpoint::saved_steps(train::checkpoint_folder(run_dir));
  if (!steps || steps->empty()) return "There is no checkpoint yet. ";
  std::error_code failed;
  const std::string path = fmt::format("{}/step-{:08}", train::checkpoint_folder(run_dir), steps->back());
  const auto written = std::filesystem::last_write_time(path, failed);
  const std::chrono::duration<double> age = std::filesystem::file_time_type::clock::now() - written;
  const std::string when = failed ? "" : fmt::format(" ({} ago)", format_duration(age.count()));
  return fmt::format("Last checkpoint: step {}{}. ", format_integer(steps->back()), when);
}

void say(Console& console, const launch::Verdict& verdict, const std::string& log_folder) {
  console.error(fmt::format("error    {}{}", verdict.waiting ? "gave up: " : "", verdict.sentence));
  if (verdict.waiting || verdict.rank <= 0 || log_folder.empty()) return;
  if (const std::string words = last_words(launch::log_path(log_folder, verdict.rank)); !words.empty())
    console.error(words);
}

}  // namespace

launch::AgentVoice voice_of(Console& console, const std::string& log_folder) {
  return {.warn = [&console](const std::string& text) { console.warn(text); },
          .fault =
              [&console, log_folder](const launch::Verdict& verdict, const std::string& run_dir) {
                say(console, verdict, log_folder);
                console.error(fmt::format("{}Exit 4: restart me.", last_checkpoint(run_dir)));
              }};
}

int report(Console& console, const launch::AgentResult& result, const std::string& log_folder) {
  if (result.by_signal != 0) {
    (void)std::signal(result.by_signal, SIG_DFL);
    (void)std::raise(result.by_signal);
  }
  if (result.verdict && !result.told) say(console, *result.verdict, log_folder);
  return result.code;
}

}  // namespace ingot::cli
