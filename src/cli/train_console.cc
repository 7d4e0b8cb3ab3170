#include "cli/train_console.h"

#include "base/clock.h"
#include "base/units.h"
#include "cli/numbers.h"

namespace ingot::cli {
namespace {

constexpr int64_t kRedrawNs = 200'000'000;

std::string step_time(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms/step", seconds * 1e3) : fmt::format("{:.2f} s/step", seconds);
}

}  // namespace

void TrainConsole::begin() {
  if (console_.terminal()) console_.line("\n   step    loss  tokens/s   MFU     memory   elapsed      left");
}

void TrainConsole::step(const train::StepReport& report) {
  const bool last = report.last;
  if (console_.terminal()) {
    const int64_t now = monotonic_ns();
    if (now - drawn_ns_ < kRedrawNs && !last) return;
    drawn_ns_ = now;
    const std::string line = fmt::format(
        "{:>7} {:>7.3f} {:>9} {:>5} {:>10} {:>9} {:>9}{}", format_integer(report.step),
        without_nan_sign(report.outcome.loss), format_integer(static_cast<int64_t>(report.tokens_per_second)),
        report.mfu > 0 ? fmt::format("{:.0f}%", report.mfu * 100) : "-", format_bytes(report.resident_bytes),
        format_duration(report.elapsed_seconds), format_duration(report.left_seconds), last_evaluation_);
    last ? console_.line(line) : console_.live(line);
  } else if (report.log_line || last) {
    console_.line(
        fmt::format("step {} | loss {:.4f} | lr {:.1e} | grad {:.2f} | {} tok/s | mfu {} | {} | eta {}",
                    report.step, without_nan_sign(report.outcome.loss), report.learning_rate,
                    without_nan_sign(report.outcome.grad_norm),
                    format_integer(static_cast<int64_t>(report.tokens_per_second)),
                    report.mfu > 0 ? fmt::format("{:.2f}", report.mfu) : "-",
                    step_time(report.seconds_per_step), format_duration(report.left_seconds)));
  }
}

void TrainConsole::evaluation(const train::EvaluationReport& report) {
  last_evaluation_ = fmt::format("   val {:.3f} at {}", without_nan_sign(report.evaluation.loss),
                                 format_integer(report.step));
  if (!console_.terminal())
    console_.line(fmt::format("step {} | validation loss {:.4f}{}", report.step,
                              without_nan_sign(report.evaluation.loss), report.best ? " (best)" : ""));
}

}  // namespace ingot::cli
