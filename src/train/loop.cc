#include "train/loop.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/units.h"
#include "cost/flops.h"

namespace ingot::train {
namespace {

constexpr double kRateWindowSeconds = 5;  // a live rate that follows changes and does not jitter
constexpr double kPeakIntervalSeconds = 20;
constexpr double kFirstPeakSeconds = 2;
constexpr double kShortRunSeconds =
    30;  // the first sample of the peak takes a second or more: not from these
// Until an evaluation was timed: its forward pass takes a third of a step's time for as many tokens.
constexpr double kForwardShare = 1.0 / 3;

double seconds_between(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

// Average time of a step, with a memory of some seconds.
class StepRate {
 public:
  void add(double seconds) {
    const double keep = std::exp(-seconds / kRateWindowSeconds);
    weight_ = weight_ * keep + 1;
    sum_ = sum_ * keep + seconds;
  }
  double seconds_per_step() const { return weight_ > 0 ? sum_ / weight_ : 0; }

 private:
  double sum_ = 0, weight_ = 0;
};

class Loop {
 public:
  Loop(const LoopInputs& inputs, const Progress& progress, const LoopCallbacks& callbacks)
      : in_(inputs),
        call_(callbacks),
        run_(inputs.session->run()),
        progress_(progress),
        flops_(cost::flops_per_token(run_.spec.model, run_.seq_len(), cost::FlopConvention::kMfu)),
        flops_causal_(
            cost::flops_per_token(run_.spec.model, run_.seq_len(), cost::FlopConvention::kMfuCausal)) {}

  Result<LoopResult> run();

 private:
  Result<void> one_step();
  Result<void> evaluate();
  Result<void> save(bool last);
  void sample_peak();
  void report_skip(const StepOutcome& outcome);
  StepReport report_of(const StepOutcome& outcome) const;
  Result<void> write_metrics(const StepReport& report, std::optional<double> validation_loss);
  bool has_validation() const;
  double ending_seconds() const;
  bool time_is_up() const;
  Requests own_requests();
  bool due(int64_t interval) const { return interval > 0 && progress_.step % interval == 0; }
  double elapsed() const { return seconds_before_ + seconds_between(began_ns_, monotonic_ns()); }

  const LoopInputs& in_;
  const LoopCallbacks& call_;
  const ResolvedRun& run_;
  Progress progress_;
  LoopResult result_;
  StepRate rate_;
  double flops_, flops_causal_;
  double peak_ = 0;
  int64_t peak_at_ns_ = 0, began_ns_ = 0, saved_step_ = -1, evaluated_step_ = -1;
  double seconds_before_ = 0, checkpoint_seconds_ = 0, save_seconds_ = 0;
  double evaluation_seconds_ = 0;  // of the last one; 0: none yet
  bool stop_ = false, interrupt_seen_ = false;
};

bool Loop::has_validation() const {
  return in_.validation != nullptr && in_.validation->samples(run_.seq_len()) > 0;
}

// What the evaluation and the save after the last step take: a time budget holds them too.
double Loop::ending_seconds() const {
  double evaluation = has_validation() ? evaluation_seconds_ : 0;
  if (has_validation() && evaluation_seconds_ == 0) {
    const int64_t all = in_.validation->samples(run_.seq_len()) * run_.seq_len();
    const int64_t tokens = std::min(all, run_.spec.eval.eval_tokens.value_or(all));
    evaluation = kForwardShare * rate_.seconds_per_step() * static_cast<double>(tokens) /
                 static_cast<double>(run_.tokens_per_step());
  }
  return evaluation + save_seconds_;
}

// Whether the step after the next one would end behind the time given.
bool Loop::time_is_up() const {
  const std::optional<double> max_time = run_.spec.train.max_time;
  return max_time && rate_.seconds_per_step() > 0 &&
         elapsed() + 2 * rate_.seconds_per_step() + ending_seconds() > *max_time;
}

Requests Loop::own_requests() {
  Requests own;
  if (in_.interrupt != nullptr && in_.interrupt->requested()) {
    own.add(graph::Request::kStop);
    if (!interrupt_seen_ && call_.on_interrupt) call_.on_interrupt();
    interrupt_seen_ = true;
  }
  if (in_.interrupt != nullptr && in_.interrupt->take_save_request()) own.add(graph::Request::kSave);
  // Clocks differ: that of rank 0 counts.
  if (in_.session->team().rank(0).rank == 0 && time_is_up()) own.add(graph::Request::kFinish);
  return own;
}

void Loop::sample_peak() {
  if (!in_.peak_flops) return;
  const int64_t now = monotonic_ns();
  if (seconds_between(began_ns_, now) < kFirstPeakSeconds) return;
  const double run_seconds = rate_.seconds_per_step() * static_cast<double>(run_.train_steps);
  if (std::min(run_seconds, run_.spec.train.max_time.value_or(run_seconds)) < kShortRunSeconds) return;
  if (peak_at_ns_ > 0 && seconds_between(peak_at_ns_, now) < kPeakIntervalSeconds) return;
  peak_ = in_.peak_flops();
  peak_at_ns_ = monotonic_ns();
}

void Loop::report_skip(const StepOutcome& outcome) {
  ++progress_.skipped_steps;
  const std::string first =
      outcome.first_non_finite.empty() ? "no instruction made one on replay" : outcome.first_non_finite;
  in_.events->emit(
      {.severity = Severity::kWarning,
       .kind = "step_skipped",
       .message = fmt::format("step {}: the gradient norm is not finite, the update was skipped; first "
                              "non-finite value: {}",
                              progress_.step, first),
       .fields = {{"step", progress_.step}, {"instruction", first}}});
}

StepReport Loop::report_of(const StepOutcome& outcome) const {
  StepReport report;
  report.step = progress_.step;
  report.total_steps = run_.train_steps;
  report.outcome = outcome;
  report.learning_rate = learning_rate(run_.schedule, progress_.step - 1);
  report.seconds_per_step = rate_.seconds_per_step();
  report.tokens_per_second = static_cast<double>(run_.tokens_per_step()) / report.seconds_per_step;
  if (peak_ > 0) {
    report.mfu = report.tokens_per_second * flops_ / peak_;
    report.mfu_causal = report.tokens_per_second * flops_causal_ / peak_;
  }
  report.resident_bytes = resident_bytes();
  report.elapsed_seconds = elapsed();
  report.left_seconds = static_cast<double>(run_.train_steps - progress_.step) * report.seconds_per_step;
  if (run_.spec.train.max_time)
    report.left_seconds = std::min(report.left_seconds, std::max(0.0, *run_.spec.train.max_time - elapsed()));
  report.log_line = due(run_.spec.train.log_interval) || progress_.step == 1;
  return report;
}

Result<void> Loop::write_metrics(const StepReport& report, std::optional<double> validation_loss) {
  MetricsLine line;
  line.step = report.step;
  line.loss = report.outcome.loss;
  line.grad_norm = report.outcome.grad_norm;
  line.learning_rate = report.learning_rate;
  line.validation_loss = validation_loss;
  line.tokens = progress_.step * run_.tokens_per_step();
  line.epochs = static_cast<double>(progress_.step * run_.batch.global_batch) /
                static_cast<double>(in_.train->samples(run_.seq_len()));
  line.tokens_per_second = report.tokens_per_second;
  line.samples_per_second = report.tokens_per_second / static_cast<double>(run_.seq_len());
  line.step_time_ms = report.outcome.seconds * 1e3;
  line.mfu = report.mfu;
  line.mfu_causal = report.mfu_causal;
  line.flops_per_second_per_device = report.tokens_per_second * flops_;
  line.data_stall_ms = report.outcome.data_stall_seconds * 1e3;
  line.communication_ms = report.outcome.communication_seconds * 1e3;
  line.checkpoint_stall_ms = checkpoint_seconds_ * 1e3;
  line.memory_bytes = report.resident_bytes;
  line.loss_scale = report.outcome.loss_scale;
  line.skipped = !report.outcome.applied;
  line.skipped_steps = progress_.skipped_steps;
  line.clipped_steps = progress_.clipped_steps;
  return in_.files != nullptr ? in_.files->write(line) : Result<void>();
}

Result<void> Loop::evaluate() {
  if (!has_validation() || evaluated_step_ == progress_.step) return {};
  evaluated_step_ = progress_.step;
  const int64_t begin = monotonic_ns();
  INGOT_TRY(const Evaluation evaluation,
            in_.session->evaluate(*in_.validation, run_.spec.eval.eval_tokens.value_or(-1)));
  evaluation_seconds_ = seconds_between(begin, monotonic_ns());
  result_.last_evaluation = evaluation;
  const bool best = std::isfinite(evaluation.loss) &&
                    (progress_.best_validation_step == 0 || evaluation.loss < progress_.best_validation_loss);
  if (best) {
    progress_.best_validation_loss = evaluation.loss;
    progress_.best_validation_step = progress_.step;
  }
  if (call_.on_evaluation) call_.on_evaluation({progress_.step, evaluation, best});
  if (run_.spec.train.target_loss && evaluation.loss <= *run_.spec.train.target_loss) {
    result_.reason = StopReason::kTargetLoss;
    stop_ = true;
  }
  return {};
}

Result<void> Loop::save(bool last) {
  if (saved_step_ == progress_.step) return {};
  const int64_t begin = monotonic_ns();
  progress_.training_seconds = elapsed();
  auto saved = save_session(*in_.session, checkpoint_folder(in_.run_dir), progress_, in_.identity);
  checkpoint_seconds_ = save_seconds_ = seconds_between(begin, monotonic_ns());
  if (!saved) {
    if (last) return std::move(saved).take_error();
    in_.events->emit(
        {.severity = Severity::kError,
         .kind = "checkpoint_failed",
         .message = fmt::format("step {}: saving failed: {}. Training goes on; the next try is at step {}",
                                progress_.step, saved.error().message,
                                progress_.step + run_.spec.checkpoint.save_interval.value_or(1000)),
         .fields = {{"step", progress_.step}}});
    return {};
  }
  saved_step_ = progress_.step;
  in_.events->emit(
      {.severity = Severity::kInfo,
       .kind = "checkpoint_saved",
       .message = saved->path,
       .fields = {{"step", progress_.step}, {"bytes", saved->bytes}, {"seconds", saved->seconds}}});
  for (const std::string& note : saved->notes)
    in_.events->emit(
        {.severity = Severity::kWarning, .kind = "checkpoint_note", .message = note, .fields = {}});
  if (call_.on_save) call_.on_save(*saved);
  return {};
}

Result<void> Loop::one_step() {
  INGOT_TRY(const StepOutcome outcome, in_.session->step(progress_.step, own_requests()));
  ++progress_.step;
  rate_.add(outcome.seconds);
  result_.last_loss = outcome.loss;
  if (!outcome.applied) report_skip(outcome);
  const double clip = run_.spec.optimizer.clip_grad;
  if (outcome.applied && clip > 0 && outcome.grad_norm > clip) ++progress_.clipped_steps;
  sample_peak();
  StepReport report = report_of(outcome);
  if (outcome.requests.has(graph::Request::kStop)) {
    result_.reason = StopReason::kInterrupted;
    stop_ = true;
  } else if (outcome.requests.has(graph::Request::kFinish) && progress_.step < run_.train_steps) {
    result_.reason = StopReason::kMaxTime;
    stop_ = true;
  }
  const bool last = stop_ || progress_.step == run_.train_steps;
  report.last = last;
  if (call_.on_step) call_.on_step(report);
  const bool evaluates =
      result_.reason != StopReason::kInterrupted && (last || due(run_.spec.eval.eval_interval));
  if (evaluates) INGOT_TRY_VOID(evaluate());
  if (report.log_line || evaluates || last || !outcome.applied) {
    std::optional<double> validation_loss;
    if (evaluated_step_ == progress_.step) validation_loss = result_.last_evaluation->loss;
    INGOT_TRY_VOID(write_metrics(report, validation_loss));
    checkpoint_seconds_ = 0;
  }
  const bool saves =
      due(run_.spec.checkpoint.save_interval.value_or(1000)) || outcome.requests.has(graph::Request::kSave);
  if (!last && saves) INGOT_TRY_VOID(save(false));
  return {};
}

Result<LoopResult> Loop::run() {
  began_ns_ = monotonic_ns();
  seconds_before_ = progress_.training_seconds;
  saved_step_ = progress_.step > 0 ? progress_.step : -1;
  if (progress_.step < run_.train_steps)
    INGOT_TRY_VOID(in_.session->start_data(*in_.train, progress_.step, in_.events));
  while (!stop_ && progress_.step < run_.train_steps) INGOT_TRY_VOID(one_step());
  if (result_.reason != StopReason::kInterrupted) INGOT_TRY_VOID(evaluate());
  INGOT_TRY_VOID(save(true));
  result_.progress = progress_;
  result_.seconds = seconds_between(began_ns_, monotonic_ns());
  result_.epochs = static_cast<double>(progress_.step * run_.batch.global_batch) /
                   static_cast<double>(in_.train->samples(run_.seq_len()));
  return result_;
}

}  // namespace

Result<LoopResult> run_loop(const LoopInputs& inputs, const Progress& progress,
                            const LoopCallbacks& callbacks) {
  return Loop(inputs, progress, callbacks).run();
}

}  // namespace ingot::train
