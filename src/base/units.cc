#include "base/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace ingot {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKibi = 1024.0;
constexpr auto kByteUnits = std::to_array<Unit>({
    {"", 1},
    {"B", 1},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"PB", 1e15},
    {"K", kKibi},
    {"k", kKibi},
    {"KiB", kKibi},
    {"kiB", kKibi},
    {"M", kKibi* kKibi},
    {"MiB", kKibi* kKibi},
    {"G", kKibi* kKibi* kKibi},
    {"GiB", kKibi* kKibi* kKibi},
    {"T", kKibi* kKibi* kKibi* kKibi},
    {"TiB", kKibi* kKibi* kKibi* kKibi},
    {"PiB", kKibi* kKibi* kKibi* kKibi* kKibi},
});
constexpr auto kCountUnits = std::to_array<Unit>({{"", 1},
                                                  {"k", 1e3},
                                                  {"K", 1e3},
                                                  {"M", 1e6},
                                                  {"m", 1e6},
                                                  {"G", 1e9},
                                                  {"B", 1e9},
                                                  {"b", 1e9},
                                                  {"T", 1e12}});
constexpr auto kTimeUnits = std::to_array<Unit>({{"", 1},
                                                 {"us", 1e-6},
                                                 {"ms", 1e-3},
                                                 {"s", 1},
                                                 {"sec", 1},
                                                 {"m", 60},
                                                 {"min", 60},
                                                 {"h", 3600},
                                                 {"d", 86400}});

struct Number {
  bool whole = false;  // digits only: exact
  int64_t integer = 0;
  double real = 0;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

// Takes a non-negative number off the front of `rest`. An exponent is one only where digits follow the e.
std::optional<Number> take_number(std::string_view* rest) {
  std::string digits;
  size_t at = 0;
  bool whole = true, any = false;
  const auto is_digit = [&](size_t i) { return i < rest->size() && (*rest)[i] >= '0' && (*rest)[i] <= '9'; };
  for (; at < rest->size(); ++at) {
    const char c = (*rest)[at];
    if (is_digit(at)) {
      digits.push_back(c);
      any = true;
    } else if (c == '.' && whole && (any || is_digit(at + 1))) {
      digits.push_back(c);
      whole = false;
    } else if ((c == '_' || c == ',') && any && is_digit(at + 1)) {
      continue;
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  if (at < rest->size() && ((*rest)[at] == 'e' || (*rest)[at] == 'E')) {
    const size_t sign = at + 1 < rest->size() && ((*rest)[at + 1] == '+' || (*rest)[at + 1] == '-') ? 1 : 0;
    if (is_digit(at + 1 + sign)) {
      digits.push_back('e');
      if ((*rest)[at + 1] == '-') digits.push_back('-');
      for (at += 1 + sign; is_digit(at); ++at) digits.push_back((*rest)[at]);
      whole = false;
    }
  }
  Number number;
  number.whole = whole;
  const char* end = digits.data() + digits.size();
  if (std::from_chars(digits.data(), end, number.real).ec != std::errc{}) return std::nullopt;
  if (whole && std::from_chars(digits.data(), end, number.integer).ec != std::errc{}) return std::nullopt;
  rest->remove_prefix(at);
  return number;
}

std::string_view take_letters(std::string_view* rest) {
  size_t n = 0;
  while (n < rest->size() && std::isalpha(static_cast<unsigned char>((*rest)[n])) != 0) ++n;
  const std::string_view letters = rest->substr(0, n);
  rest->remove_prefix(n);
  return letters;
}

template <size_t N>
std::optional<double> factor_of(std::string_view name, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.factor;
  }
  return std::nullopt;
}

std::optional<int64_t> scaled(const Number& number, double factor) {
  if (number.whole) {
    int64_t result = 0;
    // Every factor of a size or a count is an integer below 2^53.
    if (__builtin_mul_overflow(number.integer, static_cast<int64_t>(factor), &result)) return std::nullopt;
    return result;
  }
  const double value = number.real * factor;
  const double nearest = std::round(value);
  if (!(value < 9.2e18) || std::abs(value - nearest) > 1e-9 * value) return std::nullopt;
  return static_cast<int64_t>(nearest);
}

template <size_t N>
Result<int64_t> parse_whole(std::string_view text, const std::array<Unit, N>& units, std::string_view what) {
  std::string_view rest = trimmed(text);
  const auto number = take_number(&rest);
  rest = trimmed(rest);
  const std::string_view name = take_letters(&rest);
  const auto factor = factor_of(name, units);
  if (!number || !factor || !rest.empty()) return invalid(fmt::format("'{}' is not {}", text, what));
  const auto value = scaled(*number, *factor);
  if (!value) return invalid(fmt::format("'{}' is not a whole number below 9.2e18", text));
  return *value;
}

std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  return value >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

}  // namespace

Result<int64_t> parse_bytes(std::string_view text) {
  return parse_whole(text, kByteUnits, "a size; write for instance 64MiB, 1.5GiB or 500MB");
}

Result<int64_t> parse_count(std::string_view text) {
  return parse_whole(text, kCountUnits, "a count; write for instance 1000, 10k, 1.5M or 10G");
}

Result<double> parse_seconds(std::string_view text) {
  const auto refuse = [&] {
    return invalid(fmt::format("'{}' is not a time; write for instance 90s, 20m, 1h30m or 2d", text));
  };
  std::string_view rest = trimmed(text);
  double seconds = 0;
  int parts = 0;
  for (double last = std::numeric_limits<double>::infinity(); !rest.empty(); ++parts) {
    const auto number = take_number(&rest);
    rest = trimmed(rest);
    const std::string_view name = take_letters(&rest);
    rest = trimmed(rest);
    const auto factor = factor_of(name, kTimeUnits);
    // Units fall from part to part, and a number without a unit stands alone.
    if (!number || !factor || *factor >= last || (name.empty() && (parts > 0 || !rest.empty())))
      return refuse();
    last = *factor;
    seconds += number->real * *factor;
  }
  if (parts == 0) return refuse();
  return seconds;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array<std::string_view, 6> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 0) return "-" + format_bytes(bytes == std::numeric_limits<int64_t>::min() ? bytes + 1 : -bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kNames.size()) {
    value /= kKibi;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kNames[unit]);
}

std::string format_count(double count) {
  constexpr std::array<std::string_view, 5> kNames = {"", " k", " M", " G", " T"};
  if (!std::isfinite(count)) return fmt::format("{}", count);
  if (count < 0) return "-" + format_count(-count);
  if (count < 1000 && count == std::floor(count)) return fmt::format("{:.0f}", count);
  size_t unit = 0;
  while (count >= 999.5 && unit + 1 < kNames.size()) {
    count /= 1000;
    ++unit;
  }
  return three_digits(count) + std::string(kNames[unit]);
}

std::string format_integer(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds > 1e12) return "unknown";
  if (seconds < 0) return "-" + format_duration(-seconds);
  const auto total = static_cast<int64_t>(std::llround(seconds));
  const int64_t d = total / 86400, h = total / 3600 % 24, m = total / 60 % 60, s = total % 60;
  if (d > 0) return fmt::format("{} d {:02}:{:02}", d, h, m);
  if (h > 0) return fmt::format("{}:{:02}:{:02}", h, m, s);
  return fmt::format("{}:{:02}", m, s);
}

namespace {

// Edit distance with swaps of neighbours (optimal string alignment), letters without case.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(3, std::vector<size_t>(b.size() + 1));
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    auto& now = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({above[j] + 1, now[j - 1] + 1, above[j - 1] + (same(a[i - 1], b[j - 1]) ? 0U : 1U)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        now[j] = std::min(now[j], rows[(i + 1) % 3][j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() < 2 || name.size() > 200) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace ingot
