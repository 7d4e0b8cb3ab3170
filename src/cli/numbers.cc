#include "cli/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

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

Result<std::vector<int32_t>> parse_ids(std::string_view flag, const std::string& list) {
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    INGOT_TRY(const int64_t id, parse_integer(flag, list.substr(begin, end - begin), 0, INT32_MAX));
    ids.push_back(static_cast<int32_t>(id));
    begin = end + 1;
  }
  return ids;
}

double without_nan_sign(double value) { return std::isnan(value) ? std::abs(value) : value; }

int64_t OptionReader::integer(std::string_view flag, int64_t otherwise, int64_t low, int64_t high) {
  const auto given = arguments_.get(flag);
  if (!given) return otherwise;
  const auto value = parse_integer(flag, *given, low, high);
  if (value) return *value;
  mistake(value.error().message);
  return otherwise;
}

double OptionReader::real(std::string_view flag, double otherwise, double low, double high) {
  const auto given = arguments_.get(flag);
  if (!given) return otherwise;
  double value = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  // A comparison with not-a-number is false, so that is refused too.
  if (error != std::errc() || end != given->data() + given->size() || !(value >= low && value <= high))
    mistake(outside(flag, *given, fmt::format("a number from {} to {}", low, high)).message);
  return value;
}

int64_t OptionReader::bytes(std::string_view flag, int64_t otherwise) {
  const auto given = arguments_.get(flag);
  if (!given) return otherwise;
  const auto value = parse_bytes(*given);
  if (value && *value > 0) return *value;
  mistake(outside(flag, *given, "a size such as 64MiB or 1GiB").message);
  return otherwise;
}

std::string OptionReader::choice(std::string_view flag, const std::vector<std::string>& allowed) {
  const auto given = arguments_.get(flag);
  if (!given) return allowed.front();
  if (std::find(allowed.begin(), allowed.end(), *given) != allowed.end()) return *given;
  mistake(fmt::format("{} = {}   is not one of {}", flag, *given, fmt::join(allowed, ", ")));
  return allowed.front();
}

void OptionReader::mistake(const std::string& sentence) {
  mistakes_ += (mistakes_.empty() ? "" : "\n") + sentence;
}

Result<void> OptionReader::done() const {
  if (!mistakes_.empty()) return invalid(mistakes_);
  return {};
}

}  // namespace ingot::cli
