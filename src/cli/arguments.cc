#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>

#include "base/units.h"

namespace ingot::cli {
namespace {

// CLI11 takes what it knows; the rest comes back as extras, of which those that begin with a dash are
// mistakes.
struct Bound {
  const Option* option;
  std::vector<std::string> values;
  CLI::Option* parsed = nullptr;
};

std::string unknown_flag(const Verb& verb, const std::string& word) {
  std::vector<std::string> known = {"--help"};
  for (const Option& option : verb.options) known.emplace_back(option.flag);
  const std::string flag = word.substr(0, word.find('='));
  const std::string near = nearest_name(flag, known);
  return fmt::format("{}   unknown option of ingot {}{}", flag, verb.name,
                     near.empty() ? fmt::format("; see ingot {} --help", verb.name)
                                  : fmt::format("; did you mean {}?", near));
}

Result<std::vector<std::string>> inputs_of(const Verb& verb, const std::vector<std::string>& extras) {
  std::string mistakes;
  std::vector<std::string> inputs;
  for (const std::string& word : extras) {
    if (word.size() > 1 && word[0] == '-') {
      mistakes += (mistakes.empty() ? "" : "\n") + unknown_flag(verb, word);
    } else if (word != "--") {
      inputs.push_back(word);
    }
  }
  if (mistakes.empty() && !inputs.empty() && verb.input.empty())
    mistakes =
        fmt::format("{}   ingot {} takes no argument; see ingot {} --help", inputs[0], verb.name, verb.name);
  if (!mistakes.empty()) return invalid(mistakes);
  return inputs;
}

// CLI11 says "--set: 1 required TEXT missing".
std::string said_by_parser(const Verb& verb, const std::string& message) {
  const std::string flag = message.substr(0, message.find(':'));
  for (const Option& option : verb.options) {
    if (option.flag != flag || option.value.empty()) continue;
    return fmt::format("{}   needs a value: {} {} ({}); one that begins with a dash is written {}=-…", flag,
                       flag, option.value, option.description, flag);
  }
  return fmt::format("the command line cannot be read (the parser says: {}); see ingot {} --help", message,
                     verb.name);
}

// "--dry-run=yes"
std::string switch_with_value(const Verb& verb, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    for (const Option& option : verb.options) {
      if (option.value.empty() && option.flag == word.substr(0, equals))
        return fmt::format("{}   takes no value; write {} alone", word, option.flag);
    }
  }
  return "";
}

}  // namespace

bool Arguments::has(std::string_view flag) const {
  return std::any_of(values_.begin(), values_.end(), [&](const auto& pair) { return pair.first == flag; });
}

std::optional<std::string> Arguments::get(std::string_view flag) const {
  const auto found =
      std::find_if(values_.rbegin(), values_.rend(), [&](const auto& pair) { return pair.first == flag; });
  if (found == values_.rend()) return std::nullopt;
  return found->second;
}

std::vector<std::string> Arguments::all(std::string_view flag) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : values_) {
    if (name == flag) values.push_back(value);
  }
  return values;
}

Result<Arguments> parse_arguments(const Verb& verb, const std::vector<std::string>& words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::deque<Bound> bounds;
  for (const Option& option : verb.options) {
    Bound& bound = bounds.emplace_back(Bound{&option, {}});
    const std::string flag(option.flag);
    if (option.value.empty()) {
      bound.parsed = app.add_flag(flag);
    } else {
      bound.parsed = app.add_option(flag, bound.values)
                         ->expected(1)
                         ->allow_extra_args(false)
                         ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
  if (const std::string wrong = switch_with_value(verb, words); !wrong.empty()) return invalid(wrong);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    return invalid(said_by_parser(verb, error.what()));
  }
  INGOT_TRY(std::vector<std::string> inputs, inputs_of(verb, app.remaining()));
  Arguments arguments;
  arguments.inputs_ = std::move(inputs);
  for (const Bound& bound : bounds) {
    if (bound.option->value.empty() && bound.parsed->count() > 0)
      arguments.values_.emplace_back(bound.option->flag, "");
    for (const std::string& value : bound.values) arguments.values_.emplace_back(bound.option->flag, value);
    if (!bound.option->repeated && bound.values.size() > 1)
      return invalid(
          fmt::format("{} is given {} times; once is allowed", bound.option->flag, bound.values.size()));
  }
  return arguments;
}

std::string help_of(const Verb& verb) {
  std::string text = fmt::format("{}\n\n  {}\n", verb.summary, verb.example);
  if (!verb.input.empty()) text += fmt::format("\nInput       {}\n", verb.input);
  std::string_view section = verb.input.empty() ? "" : "Input";
  for (const Option& option : verb.options) {
    if (option.section != section) text += fmt::format("{}\n", option.section);
    section = option.section;
    const std::string left = fmt::format("{} {}", option.flag, option.value);
    text += fmt::format("  {:<24}  {}{}\n", left, option.description,
                        option.otherwise.empty() ? "" : fmt::format("  [{}]", option.otherwise));
  }
  text += "\nExit codes 0 done, 1 failed, 2 wrong usage or configuration";
  if (verb.saves)
    text += ", 3 interrupted after a clean save,\n           4 device or collective fault: restart me";
  if (!verb.see_also.empty()) text += fmt::format("\nSee also: {}", verb.see_also);
  return text + "\n";
}

std::string overview(std::span<const Verb> verbs) {
  std::string text =
      "Ingot pretrains language models on the machines you have.\n\n"
      "  ingot train book.txt            from a text file to a trained model, nothing to configure\n"
      "  ingot generate runs/book-1      what it has learned\n";
  std::string_view group;
  for (const Verb& verb : verbs) {
    if (verb.group != group) text += fmt::format("\n{}\n", verb.group);
    group = verb.group;
    text += fmt::format("  ingot {:<24}  {}\n", verb.name, verb.summary);
  }
  return text +
         "\nEach verb has --help with an example. Documentation: docs/ in the source.\n"
         "Exit codes 0 done, 1 failed, 2 wrong usage or configuration, 3 interrupted after a clean save,\n"
         "           4 device or collective fault: restart me\n";
}

}  // namespace ingot::cli
