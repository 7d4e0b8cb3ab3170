#pragma once
// Every field of a RunSpec as a list bound to one object: what the visits of visit.h become at run time.
// Internal to spec.

#include <functional>
#include <string>
#include <vector>

#include "spec/field_types.h"

namespace ingot::spec {

struct BoundField {
  std::string block;  // "train"
  Field info;
  const void* object = nullptr;
  bool is_optional = false;
  std::string choices;  // of an enum, printed words only: "run, layout"
  std::function<Wrong(const Value&)> read;
  std::function<std::string()> write;

  std::string key() const { return block + "." + std::string(info.key); }
  bool is_also(std::string_view spelling) const;
};

struct BlockName {
  std::string name;
  std::string also;
};

const std::vector<BlockName>& block_names();
// The fields of `spec`, which must outlive the list. Words of the model block follow spec->model.family at
// this moment.
std::vector<BoundField> bind_fields(RunSpec* spec);
bool has_word(std::string_view blank_separated, std::string_view word);

}  // namespace ingot::spec
