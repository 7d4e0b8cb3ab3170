#include "spec/field_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/units.h"

namespace ingot::spec {
namespace {

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

std::string plain_number(double value) { return fmt::format("{}", value); }

Wrong check_range(double value, const Field& field) {
  if (std::isfinite(value) && value >= field.min && (field.open ? value < field.max : value <= field.max)) {
    return std::nullopt;
  }
  const bool has_min = std::isfinite(field.min), has_max = std::isfinite(field.max);
  if (!has_min && !has_max) return "must be a finite number";
  if (!has_max) return fmt::format("must be at least {}", plain_number(field.min));
  if (!has_min) return fmt::format("must be at most {}", plain_number(field.max));
  return fmt::format("must be at least {} and {} {}", plain_number(field.min),
                     field.open ? "below" : "at most", plain_number(field.max));
}

std::string_view expected(Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return "needs a size, for instance \"64MiB\"";
    case Unit::kCount:
      return "needs a count, for instance 10000 or \"10G\"";
    case Unit::kSeconds:
      return "needs a time, for instance \"30s\", \"20m\" or \"2h\"";
    case Unit::kBytesPerSecond:
      return "needs a rate, for instance \"50GB/s\" or \"400Gbit/s\"";
    case Unit::kPlain:
      break;
  }
  return "needs a whole number";
}

std::optional<double> bytes_per_second(std::string text) {
  if (text.ends_with("/s")) text.resize(text.size() - 2);
  for (const std::string_view bits : {"bit", "bps", "b"}) {
    if (text.size() > bits.size() && text.ends_with(bits)) {
      const auto count = parse_count(text.substr(0, text.size() - bits.size()));
      if (count) return static_cast<double>(*count) / 8;
    }
  }
  const auto bytes = parse_bytes(text);
  if (!bytes) return std::nullopt;
  return static_cast<double>(*bytes);
}

std::optional<int64_t> integer_from_text(const std::string& text, Unit unit) {
  if (unit == Unit::kBytes) {
    const auto bytes = parse_bytes(text);
    return bytes ? std::optional(*bytes) : std::nullopt;
  }
  const auto count = parse_count(text);
  return count ? std::optional(*count) : std::nullopt;
}

std::optional<double> real_from_text(const std::string& text, Unit unit) {
  if (unit == Unit::kBytesPerSecond) return bytes_per_second(text);
  if (unit == Unit::kSeconds) {
    const auto seconds = parse_seconds(text);
    return seconds ? std::optional(*seconds) : std::nullopt;
  }
  return std::nullopt;
}

// Reads the keys of a small table by name; `read` returns false for a key that it does not know.
template <class Read>
Wrong read_table(const Value& value, std::string_view allowed, const Read& read) {
  const auto* table = value.as<Table>();
  if (table == nullptr) return fmt::format("needs a table with {}", allowed);
  for (const auto& [key, item] : *table) {
    Wrong wrong;
    if (!read(key, item, &wrong)) return fmt::format("has no key {}; it takes {}", key, allowed);
    if (wrong) return fmt::format("{}: {}", key, *wrong);
  }
  return std::nullopt;
}

}  // namespace

std::string toml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::optional<size_t> find_choice(const Value& value, const std::vector<std::string_view>& names,
                                  std::string* wrong) {
  const auto* text = value.as<std::string>();
  std::vector<std::string> candidates;
  for (size_t i = 0; i < names.size(); ++i) {
    if (text != nullptr && same_word(*text, names[i])) return i;
    candidates.emplace_back(names[i]);
  }
  *wrong = fmt::format("is not one of {}", fmt::join(names, ", "));
  const std::string near = text == nullptr ? "" : nearest_name(*text, candidates);
  if (!near.empty()) *wrong += fmt::format("; did you mean {}?", near);
  return std::nullopt;
}

Wrong read_value(const Value& value, const Field&, bool* out) {
  const auto* boolean = value.as<bool>();
  if (boolean == nullptr) return "must be true or false";
  *out = *boolean;
  return std::nullopt;
}

Wrong read_value(const Value& value, const Field& field, int64_t* out) {
  std::optional<int64_t> number;
  if (const auto* integer = value.as<int64_t>()) number = *integer;
  if (const auto* real = value.as<double>();
      real != nullptr && std::abs(*real) < 9e15 && std::floor(*real) == *real) {
    number = static_cast<int64_t>(*real);
  }
  if (const auto* text = value.as<std::string>()) number = integer_from_text(*text, field.unit);
  if (!number) return std::string(expected(field.unit));
  if (Wrong wrong = check_range(static_cast<double>(*number), field)) return wrong;
  *out = *number;
  return std::nullopt;
}

Wrong read_value(const Value& value, const Field& field, double* out) {
  std::optional<double> number;
  if (const auto* integer = value.as<int64_t>()) number = static_cast<double>(*integer);
  if (const auto* real = value.as<double>()) number = *real;
  if (const auto* text = value.as<std::string>()) number = real_from_text(*text, field.unit);
  if (!number) return field.unit == Unit::kPlain ? "needs a number" : std::string(expected(field.unit));
  if (Wrong wrong = check_range(*number, field)) return wrong;
  *out = *number == 0 ? 0.0 : *number;  // -0 reads as 0
  return std::nullopt;
}

Wrong read_value(const Value& value, const Field&, std::string* out) {
  if (const auto* text = value.as<std::string>()) {
    *out = *text;
    return std::nullopt;
  }
  return "needs a text in quotes";
}

Wrong read_value(const Value& value, const Field&, std::vector<std::string>* out) {
  std::vector<std::string> result;
  if (const auto* text = value.as<std::string>()) {
    result.push_back(*text);
  } else if (const auto* list = value.as<std::vector<Value>>()) {
    for (const Value& item : *list) {
      const auto* one = item.as<std::string>();
      if (one == nullptr) return "needs texts in quotes: [\"a\", \"b\"]";
      result.push_back(*one);
    }
  } else {
    return "needs a text or a list of texts: [\"a\", \"b\"]";
  }
  *out = std::move(result);
  return std::nullopt;
}

Wrong read_value(const Value& value, const Field& field, std::vector<int64_t>* out) {
  const auto* list = value.as<std::vector<Value>>();
  if (list == nullptr) return "needs a list of whole numbers: [4, 4, 8]";
  std::vector<int64_t> result;
  for (const Value& item : *list) {
    int64_t one = 0;
    if (Wrong wrong = read_value(item, field, &one)) return wrong;
    result.push_back(one);
  }
  *out = std::move(result);
  return std::nullopt;
}

Wrong read_value(const Value& value, const Field&, ValidationSource* out) {
  ValidationSource source;
  if (const auto* text = value.as<std::string>()) {
    if (text->empty()) return "needs a path, or a fraction of the training data from 0 to below 1";
    source.path = *text;
    source.fraction = 0;
    *out = source;
    return std::nullopt;
  }
  const Field fraction{.key = "", .help = "", .min = 0, .max = 1, .open = true};
  if (Wrong wrong = read_value(value, fraction, &source.fraction)) {
    return "needs a path, or a fraction of the training data from 0 to below 1";
  }
  *out = source;
  return std::nullopt;
}

Wrong read_value(const Value& value, const Field&, RopeScaling* out) {
  RopeScaling scaling;
  std::optional<std::string> type;
  const Field positive{.key = "", .help = "", .min = 1e-6};
  const Field positions{.key = "", .help = "", .unit = Unit::kCount, .min = 1};
  Wrong wrong =
      read_table(value, "factor, low_freq_factor, high_freq_factor, original_max_position_embeddings",
                 [&](const std::string& key, const Value& item, Wrong* reason) {
                   if (key == "rope_type" || key == "type") {
                     const auto* text = item.as<std::string>();
                     type = text == nullptr ? "" : *text;
                   } else if (key == "factor") {
                     *reason = read_value(item, positive, &scaling.factor);
                   } else if (key == "low_freq_factor") {
                     *reason = read_value(item, positive, &scaling.low_freq_factor);
                   } else if (key == "high_freq_factor") {
                     *reason = read_value(item, positive, &scaling.high_freq_factor);
                   } else if (key == "original_max_position_embeddings") {
                     *reason = read_value(item, positions, &scaling.original_max_position_embeddings);
                   } else {
                     return key == "rope_theta";
                   }
                   return true;
                 });
  if (type && *type != "llama3")
    return fmt::format("has rope_type \"{}\"; this version has llama3 only", *type);
  if (!wrong) *out = scaling;
  return wrong;
}

Wrong read_value(const Value& value, const Field&, std::vector<std::pair<std::string, double>>* out) {
  std::vector<std::pair<std::string, double>> parts;
  const Field weight{.key = "", .help = "", .min = 0};
  Wrong wrong = read_table(value, "a weight for each path: {\"a/\" = 0.7, \"b/\" = 0.3}",
                           [&](const std::string& key, const Value& item, Wrong* reason) {
                             double one = 0;
                             *reason = read_value(item, weight, &one);
                             parts.emplace_back(key, one);
                             return true;
                           });
  std::sort(parts.begin(), parts.end());
  if (!wrong) *out = std::move(parts);
  return wrong;
}

Wrong read_value(const Value& value, const Field&, std::vector<std::pair<std::string, LinkSpec>>* out) {
  std::vector<std::pair<std::string, LinkSpec>> links;
  const Field rate{.key = "", .help = "", .unit = Unit::kBytesPerSecond, .min = 0};
  const Field time{.key = "", .help = "", .unit = Unit::kSeconds, .min = 0};
  const auto read_link = [&](const std::string& name, const Value& table, Wrong* reason) {
    LinkSpec link;
    *reason = read_table(table, "bandwidth and latency",
                         [&](const std::string& key, const Value& item, Wrong* inner) {
                           if (key == "bandwidth") *inner = read_value(item, rate, &link.bandwidth);
                           if (key == "latency") *inner = read_value(item, time, &link.latency);
                           return key == "bandwidth" || key == "latency";
                         });
    links.emplace_back(name, link);
    return true;
  };
  Wrong wrong = read_table(value, "a class each: links.network = {bandwidth = \"50GB/s\", latency = \"5us\"}",
                           read_link);
  std::sort(links.begin(), links.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (!wrong) *out = std::move(links);
  return wrong;
}

std::string write_value(bool value, const Field&) { return value ? "true" : "false"; }

std::string write_value(int64_t value, const Field& field) {
  if (field.unit == Unit::kBytes && value > 0) {
    constexpr std::array<std::string_view, 3> kNames = {"GiB", "MiB", "KiB"};
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t unit = int64_t{1} << (30 - 10 * i);
      if (value % unit == 0) return fmt::format("\"{}{}\"", value / unit, kNames[static_cast<size_t>(i)]);
    }
  }
  return fmt::format("{}", value);
}

std::string write_value(double value, const Field&) {
  // Shortest text that reads back the same. TOML wants a point or an exponent in what is not an integer, and
  // every real of ours accepts an integer.
  return plain_number(value);
}

std::string write_value(const std::string& value, const Field&) { return toml_quoted(value); }

std::string write_value(const std::vector<std::string>& value, const Field&) {
  if (value.size() == 1) return toml_quoted(value.front());
  std::vector<std::string> items;
  for (const std::string& one : value) items.push_back(toml_quoted(one));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string write_value(const std::vector<int64_t>& value, const Field&) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}

std::string write_value(const ValidationSource& value, const Field&) {
  return value.path.empty() ? plain_number(value.fraction) : toml_quoted(value.path);
}

std::string write_value(const RopeScaling& value, const Field&) {
  return fmt::format(
      "{{rope_type = \"llama3\", factor = {}, low_freq_factor = {}, high_freq_factor = {}, "
      "original_max_position_embeddings = {}}}",
      plain_number(value.factor), plain_number(value.low_freq_factor), plain_number(value.high_freq_factor),
      value.original_max_position_embeddings);
}

std::string write_value(const std::vector<std::pair<std::string, double>>& value, const Field&) {
  std::vector<std::string> items;
  for (const auto& [path, weight] : value) items.push_back(toml_quoted(path) + " = " + plain_number(weight));
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

std::string write_value(const std::vector<std::pair<std::string, LinkSpec>>& value, const Field&) {
  std::vector<std::string> items;
  for (const auto& [name, link] : value) {
    items.push_back(fmt::format("{} = {{bandwidth = {}, latency = {}}}", toml_quoted(name),
                                plain_number(link.bandwidth), plain_number(link.latency)));
  }
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

std::string value_text(const Value& value) {
  std::string text;
  if (value.as<std::monostate>() != nullptr) text = "null";
  if (const auto* boolean = value.as<bool>()) text = *boolean ? "true" : "false";
  if (const auto* integer = value.as<int64_t>()) text = fmt::format("{}", *integer);
  if (const auto* real = value.as<double>()) text = plain_number(*real);
  if (const auto* quoted = value.as<std::string>()) text = toml_quoted(*quoted);
  if (const auto* list = value.as<std::vector<Value>>()) {
    std::vector<std::string> items;
    for (size_t i = 0; i < std::min<size_t>(list->size(), 4); ++i) items.push_back(value_text((*list)[i]));
    if (list->size() > 4) items.emplace_back("…");
    text = fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (value.as<Table>() != nullptr) text = "{…}";
  constexpr size_t kLongest = 60;
  if (text.size() <= kLongest) return text;
  size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
  return text.substr(0, cut) + "…";
}

}  // namespace ingot::spec
