#pragma once
// compile(): the chain of passes from a forward graph to the program of a stage. Each pass is a file of its
// own in passes/; they never include each other. Order and reasons: docs/design.md.

#include <optional>

#include "graph/program.h"

namespace ingot::graph {

enum class Recompute : uint8_t { kNone, kSelective, kFull };

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1, clip = 1.0;
};

struct CompileOptions {
  Layout layout;
  Purpose purpose = Purpose::kTrain;
  Precision precision = Precision::kF32;
  std::optional<DType> residual_dtype;  // default: as computation
  Recompute recompute = Recompute::kNone;
  OptimizerOptions optimizer;
  std::vector<const Target*> targets;  // [0] runs everything but what the next line gives to [1]
  // AdamW and its state on targets[1], in its memory: copy down, update, copy up.
  bool update_on_second_target = false;
  int threads = 1;    // of the pool that will run it
  bool check = true;  // run the static verifier
};

// Errors: sizes that the mesh cannot divide (with the nearest that work), what this version cannot do yet.
Result<Program> compile(Graph forward, const CompileOptions& options, int stage = 0);

}  // namespace ingot::graph
