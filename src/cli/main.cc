// The entry point: finds the verb, parses its arguments, runs it, and catches what libraries throw.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/file.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/outcome.h"

namespace ingot::cli {
namespace {

// The verb with the most words that the command line begins with.
const Verb* find_verb(const std::vector<std::string>& words, size_t& used) {
  const Verb* best = nullptr;
  used = 0;
  for (const Verb& verb : all_verbs()) {
    std::string prefix;
    for (size_t n = 1; n <= words.size() && n <= 3; ++n) {
      prefix += (n > 1 ? " " : "") + words[n - 1];
      if (prefix == verb.name && n > used) {
        best = &verb;
        used = n;
      }
    }
  }
  return best;
}

int unknown_verb(const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const Verb& verb : all_verbs()) known.emplace_back(verb.name);
  std::string given = words[0], listed;
  // As many words as lead to some verb: "data tokenizer".
  for (size_t n = 1; n < words.size(); ++n) {
    const std::string longer = given + " " + words[n];
    const bool leads = std::any_of(known.begin(), known.end(),
                                   [&](const std::string& name) { return name.starts_with(longer + " "); });
    if (!leads) break;
    given = longer;
  }
  for (const std::string& name : known) {
    if (name.starts_with(given + " ")) listed += fmt::format("  ingot {}\n", name);
  }
  if (!listed.empty()) {
    if (words.back() == "--help" || words.back() == "-h") {
      (void)print_out(listed);
      return kDone;
    }
    const std::string all = fmt::format("{}", fmt::join(words, " "));
    fmt::print(stderr, "ingot {}   {}\n{}", all,
               all == given ? "needs one more word; there are" : "unknown verb; there are", listed);
    return kUsage;
  }
  const std::string near = nearest_name(given, known);
  fmt::print(stderr, "{}   unknown verb{}; ingot --help lists them\n", given,
             near.empty() ? "" : fmt::format("; did you mean ingot {}?", near));
  return kUsage;
}

// A command whose output was lost has failed, whatever else it did.
int with_output_checked(int code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != kDone) return code;
  Console(true).error(kOutputFailed);
  return kFailed;
}

int run(std::vector<std::string> words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" ||
      (words[0] == "help" && words.size() == 1)) {
    (void)print_out(overview(all_verbs()));
    return words.empty() ? kUsage : kDone;
  }
  if (words[0] == "--version") {
    (void)print_out(fmt::format("ingot {}\n", INGOT_VERSION));
    return kDone;
  }
  if (words[0] == "help") {  // "ingot help train"
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  size_t used = 0;
  const Verb* verb = find_verb(words, used);
  if (verb == nullptr) return unknown_verb(words);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(used));
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == "--help" || word == "-h") {
      (void)print_out(help_of(*verb));
      return kDone;
    }
  }
  const auto arguments = parse_arguments(*verb, words);
  if (!arguments) {
    Console(true).error(arguments.error().message);
    return kUsage;
  }
  // A run that saves goes on when the reader of its lines has gone ("ingot train … | head").
  if (verb->saves) (void)std::signal(SIGPIPE, SIG_IGN);
  return verb->run(*arguments);
}

}  // namespace
}  // namespace ingot::cli

int main(int argc, char** argv) {
  // Tests stop a process at a named point of a write; nothing else sets this.
  if (const char* fault = std::getenv("INGOT_FAULT"))
    ingot::set_fault(fault);  // NOLINT(concurrency-mt-unsafe)
  try {
    return ingot::cli::with_output_checked(ingot::cli::run(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const std::exception& error) {
    fmt::print(stderr, "ingot: a library failed: {}\n", error.what());
    return ingot::cli::kFailed;
  }
}
