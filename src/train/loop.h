#pragma once
// The training loop: steps, evaluations, saves and the reasons to stop. It knows no terminal: what a person
// sees is made of the callbacks. In a world of processes each runs its own, and all decide alike: by step
// numbers, by sums over the world, and by requests that travel with a step.

#include <functional>
#include <optional>

#include "base/event.h"
#include "train/checkpointing.h"
#include "train/interrupt.h"
#include "train/run_files.h"

namespace ingot::train {

struct StepReport {
  int64_t step = 0, total_steps = 0;  // finished steps
  StepOutcome outcome;
  double learning_rate = 0;
  double tokens_per_second = 0;  // over the last seconds
  double seconds_per_step = 0;
  double mfu = 0, mfu_causal = 0;
  int64_t resident_bytes = 0;
  double elapsed_seconds = 0, left_seconds = 0;
  bool log_line = false;  // at log_interval
  bool last = false;      // of this process
};

struct EvaluationReport {
  int64_t step = 0;
  Evaluation evaluation;
  bool best = false;
};

struct LoopCallbacks {
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EvaluationReport&)> on_evaluation;
  std::function<void(const checkpoint::SaveReport&)> on_save;
  std::function<void()> on_interrupt;  // the first signal was seen; the running step is the last
};

struct LoopInputs {
  Session* session = nullptr;
  const data::TokenStream* train = nullptr;
  const data::TokenStream* validation = nullptr;  // may be null or empty
  DataIdentity identity;
  std::string run_dir;
  RunFiles* files = nullptr;  // null: of a rank that writes no run files
  EventLog* events = nullptr;
  InterruptGuard* interrupt = nullptr;
  std::function<double()> peak_flops;  // FLOP/s of this process's device, sampled now and then
};

enum class StopReason : uint8_t { kFinished, kMaxTime, kTargetLoss, kInterrupted };

struct LoopResult {
  StopReason reason = StopReason::kFinished;
  Progress progress;
  double last_loss = 0;
  std::optional<Evaluation> last_evaluation;
  double seconds = 0;  // of this process
  double epochs = 0;
};

// Goes on from `progress` until the budget ends, a target is reached or a signal comes; ends with an
// evaluation (except after a signal) and a save. A save that fails on the way is an event and is tried again
// at the next interval; the last one failing is an error. Errors of a step: code kFault for collectives,
// kCorrupt for data.
Result<LoopResult> run_loop(const LoopInputs& inputs, const Progress& progress,
                            const LoopCallbacks& callbacks);

}  // namespace ingot::train
