#pragma once
// One training run in memory: the ranks of this process, its programs for training and evaluation, their
// state and their data. It does single steps; when to stop, save or report is the loop's (train/loop.h).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "graph/compile.h"
#include "spec/spec.h"
#include "train/evaluation.h"
#include "train/lr_schedule.h"
#include "train/rank_team.h"
#include "train/weights.h"

namespace ingot::train {

// A configuration in which everything is decided: what resolve (train/resolve.h) makes of a RunSpec.
struct ResolvedRun {
  spec::RunSpec spec;
  graph::Precision precision = graph::Precision::kF32;
  std::string backend = "cpu";
  int threads = 1;
  data::StepLayout batch;  // global batch, micro-batch, replicas
  graph::Mesh mesh;
  int64_t train_steps = 0;
  LrSchedule schedule;

  int64_t seq_len() const { return spec.data.seq_len; }
  int64_t tokens_per_step() const { return batch.global_batch * seq_len(); }
};

struct RunPrograms {
  graph::Program train, evaluate;
};

// The programs of a run; needs no memory for them, so a plan can be shown before anything is allocated.
Result<RunPrograms> compile_programs(const ResolvedRun& run);

struct StepOutcome {
  double loss = 0;  // mean over the tokens of the step
  double grad_norm = 0;
  double tokens = 0;  // that counted
  double loss_scale = 1;
  bool applied = true;           // false: a non-finite norm, nothing was changed
  std::string first_non_finite;  // the instruction that made it, where not applied
  double seconds = 0;
  double data_stall_seconds = 0, communication_seconds = 0;
  bool stop_requested = false;  // by any rank
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(const ResolvedRun& run, RunPrograms programs);
  ~Session();

  const ResolvedRun& run() const { return run_; }
  const RunPrograms& programs() const { return programs_; }
  Weights& weights() { return *weights_; }
  std::span<double> scalars(int rank);  // graph::ScalarIndex, of that rank
  int64_t planned_bytes() const;        // over all ranks of this process

  void initialise();  // parameters as published, optimizer zero, scalars as at step 0
  // Made-up tokens on side 0, and a step on them at learning rate 0: for timing. initialise() or a load must
  // follow before training.
  void fill_made_up_batch();
  Result<void> run_made_up_step();
  // Seconds of one such step, the median of at least two after a first one.
  Result<double> measure_step(double at_least_seconds);

  // Another number of steps and what follows from it; before start_data.
  void set_budget(const ResolvedRun& run);

  // Feeds training data from `first_step` on. The stream must outlive the session.
  Result<void> start_data(const data::TokenStream& stream, int64_t first_step, EventLog* events);
  Result<StepOutcome> step(int64_t step, bool request_stop);
  // Mean loss over the first `max_tokens` of the stream in its own order (negative: all of it).
  Result<Evaluation> evaluate(const data::TokenStream& stream, int64_t max_tokens);
  int64_t substituted_samples() const;
  void set_observer(runtime::Observer observer);  // of rank 0's training steps

 private:
  Session() = default;
  struct Engine;  // executors and loaders of one rank
  Result<void> prepare(Rank& rank);
  Result<void> step_of(Rank& rank, int64_t step, bool request_stop, StepOutcome* outcome);
  void fill_step_block(Engine& engine, int side, int64_t step, double rate, bool request_stop);

  ResolvedRun run_;
  RunPrograms programs_;
  std::unique_ptr<RankTeam> team_;
  std::unique_ptr<Weights> weights_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace ingot::train
