#pragma once
// How the types of spec.h are read from a Value and written as TOML, units included. Internal to spec.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/names.h"
#include "spec/spec.h"
#include "spec/value.h"

namespace ingot::spec {

enum class Unit : uint8_t { kPlain, kBytes, kCount, kSeconds, kBytesPerSecond };

struct Field {
  std::string_view key;
  std::string_view help;
  std::string_view also = "";  // other engines' spellings, separated by blanks
  Unit unit = Unit::kPlain;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool open = false;            // max itself is not allowed
  std::string_view unset = "";  // what an unset optional means
  std::string_view word = "";   // how an unset optional may be written: "auto"
};

// Each reads `value` into `out`, or returns what is allowed as a sentence and leaves `out` alone.
using Wrong = std::optional<std::string>;
Wrong read_value(const Value& value, const Field& field, bool* out);
Wrong read_value(const Value& value, const Field& field, int64_t* out);
Wrong read_value(const Value& value, const Field& field, double* out);
Wrong read_value(const Value& value, const Field& field, std::string* out);
Wrong read_value(const Value& value, const Field& field, std::vector<std::string>* out);
Wrong read_value(const Value& value, const Field& field, std::vector<int64_t>* out);
Wrong read_value(const Value& value, const Field& field, ValidationSource* out);
Wrong read_value(const Value& value, const Field& field, RopeScaling* out);
Wrong read_value(const Value& value, const Field& field, std::vector<std::pair<std::string, double>>* out);
Wrong read_value(const Value& value, const Field& field, std::vector<std::pair<std::string, LinkSpec>>* out);

// TOML text; "" for what must be left out (an unset optional without a word).
std::string write_value(bool value, const Field& field);
std::string write_value(int64_t value, const Field& field);
std::string write_value(double value, const Field& field);
std::string write_value(const std::string& value, const Field& field);
std::string write_value(const std::vector<std::string>& value, const Field& field);
std::string write_value(const std::vector<int64_t>& value, const Field& field);
std::string write_value(const ValidationSource& value, const Field& field);
std::string write_value(const RopeScaling& value, const Field& field);
std::string write_value(const std::vector<std::pair<std::string, double>>& value, const Field& field);
std::string write_value(const std::vector<std::pair<std::string, LinkSpec>>& value, const Field& field);

// The index of `value`'s word in `names`, without case; or the choices and a hint.
std::optional<size_t> find_choice(const Value& value, const std::vector<std::string_view>& names,
                                  std::string* wrong);
std::string toml_quoted(std::string_view text);

template <class E>
std::vector<std::string_view> choice_names() {
  std::vector<std::string_view> names;
  for (const auto& one : choices_of(E{})) names.push_back(one.name);
  return names;
}

template <class E>
requires std::is_enum_v<E> Wrong read_value(const Value& value, const Field&, E* out) {
  std::string wrong;
  const auto index = find_choice(value, choice_names<E>(), &wrong);
  if (!index) return wrong;
  *out = choices_of(E{})[*index].value;
  return std::nullopt;
}

template <class E>
requires std::is_enum_v<E> std::string write_value(E value, const Field&) {
  return toml_quoted(name_of(value));
}

template <class T>
Wrong read_value(const Value& value, const Field& field, std::optional<T>* out) {
  const auto* text = value.as<std::string>();
  const bool is_word = text != nullptr && !field.word.empty() && *text == field.word;
  if (is_word || value.as<std::monostate>() != nullptr) {
    out->reset();
    return std::nullopt;
  }
  T inner{};
  Wrong wrong = read_value(value, field, &inner);
  if (!wrong) *out = std::move(inner);
  if (wrong && !field.word.empty()) *wrong += ", or " + std::string(field.word);
  return wrong;
}

template <class T>
std::string write_value(const std::optional<T>& value, const Field& field) {
  if (value) return write_value(*value, field);
  return field.word.empty() ? "" : toml_quoted(field.word);
}

}  // namespace ingot::spec
