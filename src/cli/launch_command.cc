#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "cli/agent_report.h"
#include "cli/commands.h"
#include "cli/outcome.h"
#include "cli/train_configuration.h"
#include "launch/multi_node.h"
#include "launch/rank_side.h"

namespace ingot::cli {
namespace {

constexpr std::array kOwnOptions = {
    Option{"Many ranks", "-n", "N", "ranks to start", "dp·tp·pp·cp of the configuration"},
    Option{"Many ranks", "--hosts", "HOST:N,…", "start them on these nodes, by mpirun", "this node"},
    Option{"Many ranks", "--nodes", "N", "start them on nodes that Slurm chooses, by srun", ""},
    Option{"Many ranks", "--port", "N", "with --hosts: where ranks meet, and the next one", "29500"},
};

// Its own options, then those that it passes on.
std::span<const Option> all_options() {
  static const std::vector<Option> kAll = [] {
    std::vector<Option> all(kOwnOptions.begin(), kOwnOptions.end());
    const auto of_ranks = [](const Option& option) { return option.section == kOwnOptions[0].section; };
    std::ranges::copy_if(train_options(), std::back_inserter(all), of_ranks);
    // A plan is printed by ingot train.
    std::ranges::copy_if(train_options(), std::back_inserter(all),
                         [&](const Option& option) { return !of_ranks(option) && option.flag != "--json"; });
    return all;
  }();
  return kAll;
}

Result<int> number(const Arguments& arguments, std::string_view flag, int otherwise) {
  const std::optional<std::string> text = arguments.get(flag);
  if (!text) return otherwise;
  int value = 0;
  const char* end = text->data() + text->size();
  if (std::from_chars(text->data(), end, value).ptr != end || value < 1)
    return invalid(fmt::format("{} {}   is no number of them; write {} 2", flag, *text, flag));
  return value;
}

std::vector<std::string> hosts_of(const Arguments& arguments) {
  std::vector<std::string> hosts;
  const std::string list = arguments.get("--hosts").value_or("");
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    hosts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return hosts;
}

// As many as the layout has; where dp is not said, the hosts' or else one replica.
Result<int> ranks_for(const Arguments& arguments, const spec::LoadedSpec& loaded) {
  INGOT_TRY(const int on_hosts, launch::ranks_of(hosts_of(arguments)));
  const spec::ParallelSpec& parallel = loaded.spec.parallel;
  const int64_t shape = parallel.tp * parallel.pp * parallel.cp;
  const int64_t fallback = parallel.dp ? *parallel.dp * shape : on_hosts > 0 ? on_hosts : shape;
  INGOT_TRY(const int ranks, number(arguments, "-n", static_cast<int>(fallback)));
  INGOT_TRY_VOID(spec::check_layout(loaded, ranks));
  return ranks;
}

std::string own_path() {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "ingot" : path.string();
}

Result<int> start_elsewhere(const Arguments& arguments, Console& console, launch::MultiNode start) {
  INGOT_TRY(std::vector<std::string> words, launch::engine_command(start));
  if (arguments.has("--dry-run")) {
    console.line(launch::in_a_line(words));
    return kDone;
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  (void)::execvp(pointers[0], pointers.data());
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} cannot be started: {}. The command is: {}", words[0],
                           std::generic_category().message(errno), launch::in_a_line(words))};
}

Result<int> start_here(const Arguments& arguments, Console& console, const launch::LocalStart& start) {
  if (arguments.has("--dry-run")) {
    const std::vector<launch::Cpus> shares = launch::share_cpus(launch::allowed_cpus(), start.ranks);
    for (int rank = 0; rank < start.ranks; ++rank)
      console.field(fmt::format("rank {}", rank),
                    fmt::format("cores {}{}", launch::describe(shares[static_cast<size_t>(rank)]),
                                rank == 0 ? "" : ", log " + launch::log_path(start.log_folder, rank)));
    console.field("command", launch::in_a_line(start.words));
    console.field("", "nothing was started (--dry-run)");
    return kDone;
  }
  INGOT_TRY(const launch::AgentResult result, launch::run_local(start, voice_of(console, start.log_folder)));
  return report(console, result, start.log_folder);
}

Result<int> launch_ranks(const Arguments& arguments, Console& console) {
  if (arguments.has("--hosts") && arguments.has("--nodes"))
    return invalid("--nodes   goes without --hosts: Slurm chooses the nodes");
  INGOT_TRY(const TrainConfiguration configuration, load_train_configuration(arguments));
  INGOT_TRY(const int ranks, ranks_for(arguments, configuration.loaded));
  const std::string& run_dir = configuration.loaded.spec.run.dir;
  std::vector<std::string> words = {own_path(), "train"};
  for (const std::string& word : train_words(arguments)) {
    const bool own = word == "--dry-run" || word.starts_with("--run-dir=");
    if (!own) words.push_back(word);
  }
  words.push_back("--run-dir=" + run_dir);
  if (!arguments.has("--hosts") && !arguments.has("--nodes"))
    return start_here(arguments, console,
                      {.ranks = ranks,
                       .words = words,
                       .log_folder = fmt::format("{}/{}", run_dir, kLogFolder),
                       .environment = {}});
  launch::MultiNode elsewhere{.ranks = ranks, .hosts = hosts_of(arguments), .passed = {}, .words = words};
  INGOT_TRY(elsewhere.nodes, number(arguments, "--nodes", 0));
  INGOT_TRY(elsewhere.port, number(arguments, "--port", elsewhere.port));
  elsewhere.as_root = ::geteuid() == 0;
  for (const char* name : {"INGOT_CACHE", "PATH", "LD_LIBRARY_PATH"}) {
    if (launch::process_environment()(name) != nullptr) elsewhere.passed.emplace_back(name);
  }
  return start_elsewhere(arguments, console, std::move(elsewhere));
}

int run(const Arguments& arguments) {
  Console console(arguments.has("--quiet"));
  const auto code = launch_ranks(arguments, console);
  return code ? *code : fail(console, code.error());
}

}  // namespace

Verb launch_verb() {
  return {.name = "launch",
          .summary = "Start and watch the ranks of a run, on this node or on many.",
          .group = "Train",
          .example = "ingot launch -n 4 run.toml",
          .input = "as ingot train: one run.toml, a run's folder, or text files",
          .options = all_options(),
          .see_also = "docs/howto/cluster.md, ingot train",
          .run = run,
          .saves = true};
}

}  // namespace ingot::cli
