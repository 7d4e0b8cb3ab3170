#pragma once
// A parsed configuration before it means anything: the common form of TOML, --set and config.json. Internal
// to spec.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace ingot::spec {

// A struct of its own and no pair: a vector of it may be named while Value is incomplete, for clang as well.
struct Entry;
using Table = std::vector<Entry>;  // in the order of the file

struct Value {
  // monostate: JSON's null.
  std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<Value>, Table> data;
  std::string place;  // "run.toml:7"
  int line = 0;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
};

struct Entry {
  Entry(std::string name, Value content) : key(std::move(name)), value(std::move(content)) {}
  std::string key;
  Value value;
};

std::string value_text(const Value& value);  // as TOML, cut after some 60 characters

Result<Table> read_toml(const std::string& text, const std::string& name);
// The right-hand side of --set: a TOML value, or a bare word.
Value read_override_value(const std::string& text);

}  // namespace ingot::spec
