#include "spec/fields.h"

#include <algorithm>

#include "spec/visit.h"

namespace ingot::spec {
namespace {

template <class T>
struct OptionalOf {
  static constexpr bool value = false;
  using type = T;
};
template <class T>
struct OptionalOf<std::optional<T>> {
  static constexpr bool value = true;
  using type = T;
};

template <class E>
std::string printed_choices() {
  std::string text;
  std::vector<E> seen;
  for (const auto& one : choices_of(E{})) {
    if (std::find(seen.begin(), seen.end(), one.value) != seen.end()) continue;
    seen.push_back(one.value);
    text += (text.empty() ? "" : ", ") + std::string(one.name);
  }
  return text;
}

template <class T>
BoundField bind(const char* block, T* object, const Field& info) {
  BoundField bound;
  bound.block = block;
  bound.info = info;
  bound.object = object;
  bound.is_optional = OptionalOf<T>::value;
  if constexpr (std::is_enum_v<typename OptionalOf<T>::type>) {
    bound.choices = printed_choices<typename OptionalOf<T>::type>();
  }
  bound.read = [object, info](const Value& value) { return read_value(value, info, object); };
  bound.write = [object, info] { return write_value(*object, info); };
  return bound;
}

}  // namespace

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t blank = std::min(list.find(' '), list.size());
    if (list.substr(0, blank) == word && !word.empty()) return true;
    list.remove_prefix(std::min(blank + 1, list.size()));
  }
  return false;
}

bool BoundField::is_also(std::string_view spelling) const { return has_word(info.also, spelling); }

const std::vector<BlockName>& block_names() {
  static const std::vector<BlockName> names = [] {
    std::vector<BlockName> result;
    RunSpec spec;
    visit_blocks(spec, [&](auto&, const char* name, const char* also) { result.push_back({name, also}); });
    return result;
  }();
  return names;
}

std::vector<BoundField> bind_fields(RunSpec* spec) {
  std::vector<BoundField> fields;
  visit_blocks(*spec, [&](auto& block, const char* name, const char*) {
    visit(block, [&](auto& object, const Field& info) { fields.push_back(bind(name, &object, info)); });
  });
  return fields;
}

}  // namespace ingot::spec
