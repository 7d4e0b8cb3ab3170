#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/units.h"
#include "spec/assign.h"
#include "spec/config.h"
#include "spec/hf_config.h"
#include "spec/names.h"

namespace ingot::spec {
namespace {

constexpr std::string_view kOverridePlace = "--set";
constexpr std::ptrdiff_t kMostDots = 8;  // cluster.links.network.bandwidth has three

// "a.b.c" = value as nested tables.
Table nested(std::string_view path, Value value) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {{std::string(path), std::move(value)}};
  Value inner;
  inner.place = value.place;
  inner.data = nested(path.substr(dot + 1), std::move(value));
  return {{std::string(path.substr(0, dot)), std::move(inner)}};
}

void set_places(Value* value) {
  value->place = kOverridePlace;
  value->line = 0;
}

std::vector<Table> read_overrides(const std::vector<std::string>& overrides, std::vector<Mistake>* mistakes) {
  std::vector<Table> tables;
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    const auto dots = std::count(
        text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(equals, text.size())), '.');
    if (equals == std::string::npos || equals == 0 || dots > kMostDots) {
      mistakes->push_back(
          {std::string(kOverridePlace), text, "needs block.key=value, for instance train.train_steps=100"});
      continue;
    }
    const size_t end = text.find_last_not_of(' ', equals - 1);
    Value value = read_override_value(text.substr(equals + 1));
    set_places(&value);
    tables.push_back(
        nested(std::string_view(text).substr(0, end == std::string::npos ? 0 : end + 1), std::move(value)));
  }
  return tables;
}

// The text of model.<key>, the last one that is said.
std::string model_text(const std::vector<const Table*>& tables, std::string_view key) {
  std::string text;
  for (const Table* table : tables) {
    const Value* value = find_value(*table, "model", std::string(key));
    const auto* said = value == nullptr ? nullptr : value->as<std::string>();
    if (said != nullptr) text = *said;
  }
  return text;
}

bool speaks_gpt2(const std::vector<const Table*>& tables) {
  for (const Table* table : tables) {
    for (const char* word : {"n_embd", "n_inner", "n_positions"}) {
      if (find_value(*table, "model", word) != nullptr) return true;
    }
  }
  return false;
}

std::string folder_of(const std::string& name) {
  const size_t slash = name.find_last_of('/');
  return slash == std::string::npos ? "" : name.substr(0, slash + 1);
}

// The model that the blocks' words then change: a config.json, or the family's defaults.
void start_model(const std::vector<const Table*>& tables, const std::string& name, LoadedSpec* loaded,
                 Assignment* assigned) {
  std::string family = model_text(tables, "family");
  if (family.empty()) family = model_text(tables, "model_type");
  std::string from = model_text(tables, "from");
  if (from.empty()) {
    if (family.empty()) family = speaks_gpt2(tables) ? "gpt2" : "llama";
    loaded->spec.model = default_model(family);
    return;
  }
  if (!path_exists(from) && from.front() != '/') from = folder_of(name) + from;
  auto read = read_hf_config(from);
  if (!read) {
    // The place of model.from is not known to the reader; its message has the path.
    assigned->mistakes.push_back({name, "model.from", read.error().message});
    loaded->spec.model = default_model(family);
    return;
  }
  if (!family.empty() && family != read->model.family) {
    assigned->mistakes.push_back(
        {name, fmt::format("model.family = \"{}\"", family),
         fmt::format("{} is of family {}; leave model.family out", from, read->model.family)});
  }
  loaded->spec.model = read->model;
  loaded->notes = read->notes;
}

std::string key_of_subject(const std::string& subject) { return subject.substr(0, subject.find(" = ")); }

void add_validation(const LoadedSpec& loaded, const Assignment& assigned, const std::string& name,
                    std::vector<Mistake>* mistakes) {
  for (Mistake& one : validate(loaded.spec)) {
    const std::string key = key_of_subject(one.subject);
    if (std::find(assigned.failed.begin(), assigned.failed.end(), key) != assigned.failed.end()) continue;
    one.place = name;
    for (const Origin& origin : assigned.origins) {
      if (origin.key == key) one.place = origin.place;
    }
    mistakes->push_back(std::move(one));
  }
}

int line_of(const Mistake& mistake, const std::string& name) {
  if (mistake.place.size() <= name.size() + 1 || mistake.place.compare(0, name.size() + 1, name + ":") != 0)
    return 0;
  return static_cast<int>(std::strtol(mistake.place.c_str() + name.size() + 1, nullptr, 10));
}

}  // namespace

bool LoadedSpec::is_set(const std::string& key) const {
  return std::any_of(origins.begin(), origins.end(), [&](const Origin& origin) { return origin.key == key; });
}

Result<LoadedSpec> parse_spec(const std::string& text, const std::string& name,
                              const std::vector<std::string>& overrides) {
  INGOT_TRY(const Table file, read_toml(text, name));
  LoadedSpec loaded;
  Assignment assigned;
  const std::vector<Table> changes = read_overrides(overrides, &assigned.mistakes);
  std::vector<const Table*> tables = {&file};
  for (const Table& change : changes) tables.push_back(&change);
  start_model(tables, name, &loaded, &assigned);
  for (const Table* table : tables) assign_table(*table, &loaded.spec, &assigned);
  ModelSpec& model = loaded.spec.model;
  model.from.clear();
  resolve_model(&model);
  if (model.is_sized() && model.max_positions == 0) model.max_positions = loaded.spec.data.seq_len;
  add_validation(loaded, assigned, name, &assigned.mistakes);
  if (!assigned.mistakes.empty()) {
    std::stable_sort(assigned.mistakes.begin(), assigned.mistakes.end(),
                     [&](const Mistake& a, const Mistake& b) { return line_of(a, name) < line_of(b, name); });
    return invalid(render_mistakes(assigned.mistakes));
  }
  for (std::string& note : assigned.notes) loaded.notes.push_back(std::move(note));
  loaded.origins = std::move(assigned.origins);
  return loaded;
}

Result<LoadedSpec> load_spec(const std::string& path, const std::vector<std::string>& overrides) {
  if (path.empty()) return parse_spec("", "defaults", overrides);
  INGOT_TRY(const std::string text, read_file(path));
  return parse_spec(text, path, overrides);
}

}  // namespace ingot::spec
