#pragma once
// Option values read and checked against what is allowed; all mistakes of a command are said at once.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"

namespace ingot::cli {

// A whole number with units ("10k"). Errors say the option, the value and what is allowed.
Result<int64_t> parse_integer(std::string_view flag, const std::string& text, int64_t low, int64_t high);
Result<std::vector<int32_t>> parse_ids(std::string_view flag, const std::string& list);  // "5,3,8"

// Not-a-number without the sign that it may carry: "nan", never "-nan".
double without_nan_sign(double value);

// Reads the options of one command. A wrong value gives the default and is remembered for done().
class OptionReader {
 public:
  explicit OptionReader(const Arguments& arguments) : arguments_(arguments) {}
  int64_t integer(std::string_view flag, int64_t otherwise, int64_t low, int64_t high);
  double real(std::string_view flag, double otherwise, double low, double high);
  int64_t bytes(std::string_view flag, int64_t otherwise);
  std::string choice(std::string_view flag, const std::vector<std::string>& allowed);  // default: the first
  void mistake(const std::string& sentence);
  Result<void> done() const;  // the mistakes, one a line

 private:
  const Arguments& arguments_;
  std::string mistakes_;
};

}  // namespace ingot::cli
