#include "cli/numbers.h"

#include <charconv>

#include "base/units.h"

namespace ingot::cli {
namespace {

Error outside(std::string_view flag, const std::string& text, const std::string& allowed) {
  return invalid(fmt::format("{} = {}   is not {}", flag, text, allowed));
}

}  // namespace

Result<int64_t> parse_integer(std::string_view flag, const std::string& text, int64_t low, int64_t high) {
  const std::string allowed = high >= INT32_MAX ? fmt::format("a whole number from {}", low)
                                                : fmt::format("a whole number from {} to {}", low, high);
  const auto value = parse_count(text);
  if (!value || *value < low || *value > high) return outside(flag, text, allowed);
  return *value;
}

Result<int64_t> integer_option(const Arguments& arguments, std::string_view flag, int64_t otherwise,
                               int64_t low, int64_t high) {
  const auto given = arguments.get(flag);
  if (!given) return otherwise;
  return parse_integer(flag, *given, low, high);
}

Result<double> real_option(const Arguments& arguments, std::string_view flag, double otherwise, double low,
                           double high) {
  const auto given = arguments.get(flag);
  if (!given) return otherwise;
  double value = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  // A comparison with not-a-number is false, so that is refused too.
  if (error != std::errc() || end != given->data() + given->size() || !(value >= low && value <= high))
    return outside(flag, *given, fmt::format("a number from {} to {}", low, high));
  return value;
}

}  // namespace ingot::cli
