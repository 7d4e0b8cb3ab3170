#pragma once
// One training run in memory: the ranks of this process, their programs for training and evaluation, their
// state and their data. It does single steps; when to stop, save or report is the loop's (train/loop.h).
// Where the world has other processes too, each of them makes the same calls.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "graph/compile.h"
#include "graph/ops.h"
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
  int threads = 1;         // of this process
  data::StepLayout batch;  // global batch, micro-batch, replicas
  graph::Mesh mesh;
  int rank = -1;  // of this process in a world of processes; -1: all ranks are here
  int64_t train_steps = 0;
  LrSchedule schedule;

  int64_t seq_len() const { return spec.data.seq_len; }
  int64_t tokens_per_step() const { return batch.global_batch * seq_len(); }
  int ranks_here() const { return rank < 0 ? mesh.world() : 1; }
  int rank_here(int index) const { return rank < 0 ? index : rank; }
};

// The programs of a rank. Shared by the ranks of a stage: each drops them when it takes others.
struct RankPrograms {
  std::shared_ptr<const graph::Program> train, evaluate;
};
using RunPrograms = std::vector<RankPrograms>;  // of the ranks of this process

// The programs of a run, one per stage that has ranks here; needs no memory for them, so a plan can be shown
// before anything is allocated.
Result<RunPrograms> compile_programs(const ResolvedRun& run);

// What the training programs plan, over the ranks of this process.
graph::MemoryTotals planned_memory(const RunPrograms& programs);

// A set of requests that travel with the control sums of a step, so that all ranks act after the same one.
class Requests {
 public:
  Requests& add(graph::Request request) {
    bits_ |= 1U << static_cast<unsigned>(request);
    return *this;
  }
  bool has(graph::Request request) const { return (bits_ >> static_cast<unsigned>(request) & 1U) != 0; }

 private:
  uint32_t bits_ = 0;
};

struct StepOutcome {
  double loss = 0;  // mean over the tokens of the step
  double grad_norm = 0;
  double tokens = 0;  // that counted
  double loss_scale = 1;
  bool applied = true;           // false: a non-finite norm, nothing was changed
  std::string first_non_finite;  // the instruction that made it, where not applied
  double seconds = 0;
  double data_stall_seconds = 0, communication_seconds = 0;
  Requests requests;  // of any rank
};

class Session {
 public:
  // All ranks are threads of this process.
  static Result<std::unique_ptr<Session>> create(const ResolvedRun& run, RunPrograms programs);
  // This process is run.rank of a world of processes.
  static Result<std::unique_ptr<Session>> join(const ResolvedRun& run, RunPrograms programs,
                                               std::unique_ptr<comm::Transport> transport);
  ~Session();

  const ResolvedRun& run() const { return run_; }
  const RunPrograms& programs() const { return programs_; }
  RankTeam& team() { return *team_; }
  Weights& weights() { return *weights_; }
  std::span<double> scalars(int index);  // graph::ScalarIndex, of a rank of the team
  int64_t planned_bytes() const;         // over the ranks of this process

  void initialise();  // parameters as published, optimizer zero, scalars as at step 0
  // Made-up tokens on side 0, and a step on them at learning rate 0: for timing. initialise() or a load must
  // follow before training.
  void fill_made_up_batch();
  Result<void> run_made_up_step();
  // Seconds of one such step, the median of at least two after a first one: of rank 0, told to all.
  Result<double> measure_step(double at_least_seconds);

  // Another number of steps and what follows from it; before start_data.
  void set_budget(const ResolvedRun& run);

  // Feeds training data from `first_step` on. The stream must outlive the session.
  Result<void> start_data(const data::TokenStream& stream, int64_t first_step, EventLog* events);
  Result<StepOutcome> step(int64_t step, Requests own);
  // Mean loss over the first `max_tokens` of the stream in its own order (negative: all of it).
  Result<Evaluation> evaluate(const data::TokenStream& stream, int64_t max_tokens);
  // The value that rank 0 of the world passes, on every rank: for choices that rest on a clock.
  Result<double> of_rank_0(double value);
  int64_t substituted_samples() const;
  // Once, after the last step: connections to the other processes are closed in order. Not after an error.
  Result<void> leave();
  void set_observer(runtime::Observer observer);  // of the first rank's training steps

 private:
  Session() = default;
  static Result<std::unique_ptr<Session>> make(const ResolvedRun& run, RunPrograms programs,
                                               std::unique_ptr<RankTeam> team);
  struct Engine;  // executors and loaders of one rank
  Result<void> prepare(Rank& rank);
  Result<void> step_of(Rank& rank, int64_t step, Requests own, StepOutcome* outcome);
  void fill_step_block(Engine& engine, int side, int64_t step, double rate, Requests own);

  ResolvedRun run_;
  RunPrograms programs_;
  std::unique_ptr<RankTeam> team_;
  std::unique_ptr<Weights> weights_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace ingot::train
