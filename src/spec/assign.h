#pragma once
// Puts parsed values into a RunSpec: finds the key, by its own name or another engine's, or says what was
// meant. Internal to spec.

#include <string>
#include <vector>

#include "spec/config.h"
#include "spec/value.h"

namespace ingot::spec {

struct Assignment {
  std::vector<Mistake> mistakes;
  std::vector<std::string> notes;
  std::vector<Origin> origins;
  std::vector<std::string> failed;  // keys whose value was refused
};

// `table` is a whole file (blocks with keys; keys outside of a block as nanoGPT has them). The family of
// spec->model must be set before: it decides the words of the model block.
void assign_table(const Table& table, RunSpec* spec, Assignment* out);
// One block's keys, for instance those of a config.json into "model".
void assign_block(const std::string& block, const Table& table, RunSpec* spec, Assignment* out);

// The value of block.key, by an exact name; null when it is not there.
const Value* find_value(const Table& table, const std::string& block, const std::string& key);

}  // namespace ingot::spec
