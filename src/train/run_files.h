#pragma once
// What a run writes besides checkpoints: metrics.jsonl and events.jsonl, one JSON object a line.

#include <optional>
#include <string>

#include "base/event.h"
#include "base/file.h"

namespace ingot::train {

// A line of metrics.jsonl; names as everywhere else. Absent values are left out.
struct MetricsLine {
  int64_t step = 0;  // finished steps
  double loss = 0, grad_norm = 0, learning_rate = 0;
  std::optional<double> validation_loss;
  int64_t tokens = 0;  // consumed so far
  double epochs = 0;
  double tokens_per_second = 0, samples_per_second = 0, step_time_ms = 0;
  double mfu = 0, mfu_causal = 0, flops_per_second_per_device = 0;
  double data_stall_ms = 0, communication_ms = 0, checkpoint_stall_ms = 0;
  int64_t memory_bytes = 0;  // resident
  double loss_scale = 1;
  bool skipped = false;
  int64_t skipped_steps = 0, clipped_steps = 0;  // of the run so far
};
std::string to_json(const MetricsLine& line);

inline constexpr int kMetricsFormatVersion = 1;

class RunFiles {
 public:
  // Makes the folder. Errors: it cannot be written (with the reason).
  static Result<RunFiles> open(const std::string& folder);
  Result<void> write(const MetricsLine& line);
  Result<void> write(const Event& event);
  // Drops lines of metrics.jsonl with step > `step`: a resumed run writes those again.
  static Result<void> forget_after(const std::string& folder, int64_t step);

 private:
  RunFiles(LineWriter metrics, LineWriter events)
      : metrics_(std::move(metrics)), events_(std::move(events)) {}
  LineWriter metrics_, events_;
};

}  // namespace ingot::train
