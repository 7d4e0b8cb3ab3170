#pragma once
// Trains a small model on ranks that are threads, from values that depend on names and global indices alone,
// so that every layout sees the same parameters and samples. Tests only.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/compile.h"
#include "runtime/runtime.h"

namespace ingot::runtime {

using tensor::TensorView;

// Builds the forward graph; called once per program.
using BuildGraph = std::function<graph::Graph(const graph::BuildOptions&)>;

struct Training {
  BuildGraph build;
  graph::BuildOptions shape{.batch = 2, .sequence = 8};
  int64_t vocabulary = 30;
  int dp = 1, tp = 1, cp = 1, pp = 1;
  int virtual_stages = 1;
  std::vector<int> first_layers = {};  // of the chunks; empty: chosen
  std::string schedule = "1f1b";
  int zero_stage = 0, zero_group = 0;
  int determinism_groups = 0;
  graph::ContextMode context_mode = graph::ContextMode::kRing;
  int64_t bucket_bytes = int64_t{64} << 20;
  int kv_heads = 2;
  std::vector<int> micro_batches = {2};  // per replica; one number for all, or one each
  int steps = 5;
  graph::Precision precision = graph::Precision::kF64;
  graph::Recompute recompute = graph::Recompute::kNone;
  double clip = 1.0;
  // Not 1e-8: a key bias has no gradient (softmax does not see it), and AdamW would divide rounding by so
  // little.
  double epsilon = 1e-5;
  double learning_rate = 0.01;
  double loss_scale = 1;
  bool dynamic_scale = false;
  bool documents = true;              // cut samples into documents; else each is one
  bool lazy = false, beside = false;  // Overlap::kLate, kBeside; else kEarly
  bool poison = true;
  std::vector<std::string> backends = {"reference"};
  std::string transport = "local";  // else ranks are threads that join a world as processes would
  int threads = 1;  // of each rank's pool
  // Spoils the compiled program.
  std::function<void(graph::Program&)> change;
  // After the batch of (step, rank) is filled, before it runs: to spoil something.
  std::function<void(Executor&, int step, int rank)> before_step;
  std::function<void(Executor&, State&, int step, int rank)> after_step;
  std::function<void(const StepTiming&)> timed;  // by every rank, after each step
};

using Parameters = std::map<std::string, std::vector<double>>;  // logical tensors by name

struct Outcome {
  std::string error;                                   // of the first rank that failed
  std::vector<double> losses, norms, applied, scales;  // per step, of rank 0; every rank must agree
  Parameters parameters, first_moments;
  std::vector<int64_t> samples;  // how many each replica saw in a step
};

Outcome train(const Training& training);

// Greatest relative error ||a - b|| / ||b|| of losses, norms, parameters and first moments, and whose it is.
struct Worst {
  double difference = 0;
  std::string where;
};
Worst greatest_error(const Outcome& outcome, const Outcome& expected);

// Pieces, for tests that drive an executor themselves.
graph::Mesh mesh_of(const Training& training);
graph::Program compile_or_fail(const Training& training, int micro_batches, graph::Purpose purpose,
                               int stage = 0, int replica = 0);
double parameter_value(const std::string& name, int64_t index);
void fill_parameters(State& state, const graph::Program& program, int rank);
// Samples of this rank's micro-batches: the first is `first_sample`, then consecutive; of each the positions
// of member `context` of cp.
void fill_batch(Executor& executor, const Training& training, int64_t first_sample, int side,
                int context = 0);

}  // namespace ingot::runtime
