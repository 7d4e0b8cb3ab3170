#pragma once
// The command line as data: a verb is a row that says its options; the same rows give parsing, help and the
// hints for mistakes. CLI11 does the parsing.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot::cli {

struct Option {
  std::string_view section;  // heading in the help: "Input", "Output", ...
  std::string_view flag;     // "--text-field"
  std::string_view value;    // "NAME"; empty: a switch
  std::string_view description;
  std::string_view otherwise;  // the default as shown in the help; empty: none
  bool repeated = false;
};

class Arguments;

struct Verb {
  std::string_view name;     // "data build"
  std::string_view summary;  // one line, a sentence
  std::string_view group;    // heading in `ingot --help`
  std::string_view example;  // works as it is
  std::string_view input;    // what the positional arguments are; empty: none are taken
  std::span<const Option> options;
  std::string_view see_also;
  int (*run)(const Arguments& arguments);
  bool saves = false;  // writes checkpoints, so that it can be interrupted and restarted
};

// What a user gave to one verb.
class Arguments {
 public:
  bool has(std::string_view flag) const;
  std::optional<std::string> get(std::string_view flag) const;  // the last one given
  std::vector<std::string> all(std::string_view flag) const;
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  friend Result<Arguments> parse_arguments(const Verb& verb, const std::vector<std::string>& words);
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::string> inputs_;
};

// Errors: all unknown flags with the nearest known one, a missing value, an argument where none is taken.
Result<Arguments> parse_arguments(const Verb& verb, const std::vector<std::string>& words);

std::string help_of(const Verb& verb);
std::string overview(std::span<const Verb> verbs);

}  // namespace ingot::cli
