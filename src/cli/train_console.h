#pragma once
// How a training run looks on the console: the live line, the plain lines, the evaluations.

#include "cli/console.h"
#include "train/loop.h"

namespace ingot::cli {

class TrainConsole {
 public:
  TrainConsole(Console& console, int64_t planned_bytes) : console_(console), planned_bytes_(planned_bytes) {}
  void begin();
  void step(const train::StepReport& report);
  void evaluation(const train::EvaluationReport& report);

 private:
  Console& console_;
  int64_t planned_bytes_;
  std::string last_evaluation_;
  int64_t drawn_ns_ = 0;
};

}  // namespace ingot::cli
