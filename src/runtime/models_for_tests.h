#pragma once
// Models for proofs: the two families in small, and single operations between an embedding and a head. Tests
// only.

#include <string>
#include <vector>

#include "runtime/training_for_tests.h"

namespace ingot::runtime {

struct NamedModel {
  std::string name;
  BuildGraph build;
  int kv_heads = 2;
};
inline void PrintTo(const NamedModel& model, std::ostream* out) { *out << model.name; }

// gpt2, gpt2_dropout, gpt2_tied, llama (grouped queries), llama_tied_dropout
std::vector<NamedModel> family_models();
// One operation each, so that a fault is found where it is.
std::vector<NamedModel> operation_models();

}  // namespace ingot::runtime
