// toml++ asserts, or under NDEBUG assumes, in parse_key what input such as "[=" breaks, just before its own
// proper error for it. Neither may happen: assertions off, assumptions (clang) as well.
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>

#include "spec/field_types.h"
#include "spec/value.h"

namespace ingot::spec {
namespace {

Value convert(const toml::node& node, const std::string& name);

Table convert_table(const toml::table& table, const std::string& name) {
  Table result;
  for (const auto& [key, node] : table) result.emplace_back(std::string(key.str()), convert(node, name));
  // toml++ sorts by key; people read from the top.
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.value.line < b.value.line; });
  return result;
}

template <class T>
std::string streamed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

Value convert(const toml::node& node, const std::string& name) {
  Value value;
  value.line = static_cast<int>(node.source().begin.line);
  value.place = value.line > 0 ? fmt::format("{}:{}", name, value.line) : name;
  if (const auto* table = node.as_table()) {
    value.data = convert_table(*table, name);
  } else if (const auto* array = node.as_array()) {
    std::vector<Value> items;
    for (const auto& item : *array) items.push_back(convert(item, name));
    value.data = std::move(items);
  } else if (const auto* boolean = node.as_boolean()) {
    value.data = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    value.data = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    value.data = real->get();
  } else if (const auto* text = node.as_string()) {
    value.data = text->get();
  } else if (const auto* date = node.as_date()) {
    value.data = streamed(date->get());
  } else if (const auto* time = node.as_time()) {
    value.data = streamed(time->get());
  } else if (const auto* both = node.as_date_time()) {
    value.data = streamed(both->get());
  }
  return value;
}

}  // namespace

Result<Table> read_toml(const std::string& text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(std::string_view(text), std::string_view(name));
  if (parsed.failed()) {
    const auto& error = parsed.error();
    std::string reason(error.description());
    for (char& c : reason) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    return invalid(
        fmt::format("{}:{}: this is not TOML ({}). Strings need quotes, and a key stands on one line: "
                    "key = value",
                    name, error.source().begin.line, reason));
  }
  return convert_table(parsed.table(), name);
}

Value read_override_value(const std::string& text) {
  Value value;
  // A newline would let a value bring further keys along.
  if (text.find('\n') == std::string::npos) {
    const toml::parse_result parsed = toml::parse("v = " + text, std::string_view("--set"));
    if (parsed.succeeded() && parsed.table().size() == 1) {
      value = convert(*parsed.table().get("v"), "--set");
    }
  }
  if (value.as<std::monostate>() != nullptr) value.data = text;
  return value;
}

}  // namespace ingot::spec
