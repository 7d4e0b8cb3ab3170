#pragma once
// Decides what a configuration leaves open: precision, model size, batch, budget. Pure functions of facts
// about machine and data, so that each choice can be tested and is explained in the same words that it was
// made with.

#include <string>
#include <vector>

#include "spec/config.h"
#include "train/session.h"

namespace ingot::train {

struct MachineFacts {
  int threads = 1;
  bool fast_bf16 = false;            // has instructions for bf16 products
  double bf16_flops_per_second = 0;  // measured, all threads; 0 without fast_bf16
  double f32_flops_per_second = 0;
  int64_t available_bytes = 0;

  double flops_per_second(graph::Precision precision) const {
    return precision == graph::Precision::kBF16 ? bf16_flops_per_second : f32_flops_per_second;
  }
};

struct DataFacts {
  int64_t train_tokens = 0, validation_tokens = 0;
  int64_t vocab_size = 0;
};

struct Explanation {
  std::string subject;  // "model", "budget", ...: first column on the console
  std::string text;
};

struct Resolution {
  ResolvedRun run;
  std::vector<Explanation> explanations;
  bool budget_is_time = false;  // train_steps is an estimate until finish_budget
  spec::ScheduleSpec asked;     // as configured, before steps were known
  DataFacts data;
};

inline constexpr double kDefaultMaxTimeSeconds = 20 * 60;

// Everything but, when the budget is a time, the number of steps (then estimated). Errors: all contradictions
// with the facts at once (a vocabulary that does not fit, batch and layout that do not divide, more memory
// than there is).
Result<Resolution> resolve(const spec::LoadedSpec& loaded, const MachineFacts& machine,
                           const DataFacts& data);

// Sets steps and schedule from the measured time of a step; keeps a tenth of the budget for evaluation and
// saving.
void finish_budget(Resolution& resolution, double seconds_per_step);

// A shape that is chosen when the configuration names none.
struct ShapeRow {
  int64_t layers, hidden, heads;
  double efficiency;  // share of the machine's matrix peak that a step of this width reaches
};
std::span<const ShapeRow> shape_rows();

// Loss after training `parameters` (without embeddings) on `tokens` of which `unique` are different: the
// scaling law of Hoffmann et al. (2022) with the data-repetition term of Muennighoff et al. (2023). It ranks
// shapes; it predicts no run.
double ranking_loss(double parameters, double tokens, double unique);

}  // namespace ingot::train
