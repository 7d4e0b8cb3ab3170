#include <fmt/format.h>

#include <algorithm>

#include "base/wrap.h"
#include "spec/config.h"
#include "spec/fields.h"
#include "spec/names.h"

namespace ingot::spec {
namespace {

std::string_view unit_note(Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return " (size: \"64MiB\")";
    case Unit::kSeconds:
      return " (time: \"30s\", \"2h\")";
    case Unit::kCount:
    case Unit::kPlain:
    case Unit::kBytesPerSecond:
      break;
  }
  return "";
}

std::string comment_of(const BoundField& field) {
  std::string text(field.info.help);
  text += unit_note(field.info.unit);
  if (!field.choices.empty()) text += "; " + field.choices;
  if (field.is_optional && !field.info.unset.empty()) {
    text += fmt::format("; {}: {}", field.info.word.empty() ? "not set" : field.info.word, field.info.unset);
  }
  if (const std::string_view instead = not_yet_instead(field.key()); !instead.empty())
    text += fmt::format("; not all of it in this version: {}", instead);
  return text;
}

// A comment that begins in a column of its own; further lines begin there too.
std::string folded_comment(const std::string& comment) {
  constexpr size_t kColumn = 35, kScreen = 100;
  std::string text = wrapped(comment, kScreen, kColumn + 2);
  const std::string margin = "\n" + std::string(kColumn + 2, ' ');
  for (size_t at = 0; (at = text.find(margin, at)) != std::string::npos; ++at)
    text.replace(at + 1 + kColumn, 2, "# ");
  return text;
}

}  // namespace

std::string dump_spec(const RunSpec& given) {
  RunSpec spec = given;
  std::string text;
  std::string block;
  for (const BoundField& field : bind_fields(&spec)) {
    if (field.block != block) {
      text += fmt::format("{}[{}]\n", block.empty() ? "" : "\n", field.block);
      block = field.block;
    }
    const std::string value = field.write();
    const std::string line =
        value.empty() ? fmt::format("# {} =", field.info.key) : fmt::format("{} = {}", field.info.key, value);
    text += fmt::format("{:<34} # {}\n", line, folded_comment(comment_of(field)));
  }
  return text;
}

std::vector<Difference> diff_specs(const RunSpec& before, const RunSpec& after) {
  RunSpec a = before, b = after;
  const std::vector<BoundField> old_fields = bind_fields(&a), new_fields = bind_fields(&b);
  const auto shown = [](std::string value) { return value.empty() ? std::string("unset") : value; };
  const auto find = [](const std::vector<BoundField>& fields, const std::string& key) {
    return std::find_if(fields.begin(), fields.end(), [&](const BoundField& f) { return f.key() == key; });
  };
  std::vector<Difference> differences;
  for (const BoundField& field : old_fields) {
    const auto other = find(new_fields, field.key());
    const std::string x = shown(field.write()),
                      y = other == new_fields.end() ? "unset" : shown(other->write());
    if (x != y) differences.push_back({field.key(), x, y});
  }
  for (const BoundField& field : new_fields) {
    if (find(old_fields, field.key()) != old_fields.end()) continue;
    const std::string y = shown(field.write());
    if (y != "unset") differences.push_back({field.key(), "unset", y});
  }
  return differences;
}

std::vector<KeyHelp> list_keys(const std::string& family) {
  RunSpec spec;
  spec.model = default_model(family);
  std::vector<KeyHelp> keys;
  for (const BoundField& field : bind_fields(&spec)) {
    const std::string value = field.write();
    const bool unset = field.is_optional && (value.empty() || !field.info.word.empty());
    std::string fallback = value;
    if (unset && !field.info.unset.empty()) {
      fallback = value.empty() ? std::string(field.info.unset)
                               : fmt::format("{}: {}", field.info.word, field.info.unset);
    }
    keys.push_back({field.key(), std::string(field.info.help) + std::string(unit_note(field.info.unit)),
                    field.choices, fallback, std::string(field.info.also)});
  }
  return keys;
}

std::string help_text(const std::string& family) {
  std::string text;
  std::string block;
  for (const KeyHelp& key : list_keys(family)) {
    const size_t dot = key.key.find('.');
    if (key.key.substr(0, dot) != block) {
      block = key.key.substr(0, dot);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", block);
    }
    text += fmt::format("  {:<24} {}{}{}  [{}]\n", key.key.substr(dot + 1), key.description,
                        key.choices.empty() ? "" : ": ", key.choices, key.fallback);
  }
  return text;
}

}  // namespace ingot::spec
