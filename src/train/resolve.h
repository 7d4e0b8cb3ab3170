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
  bool budget_is_data = false;  // the time given is longer than kMostEpochs take
  spec::ScheduleSpec asked;     // as configured, before steps were known
  DataFacts data;
};

inline constexpr double kDefaultMaxTimeSeconds = 20 * 60;
// A budget in time ends here: by 40 epochs a repeated token has lost its worth (Muennighoff et al. 2023,
// figure 1), and small corpora are learned by heart. A budget in steps or tokens is taken as it is.
inline constexpr double kMostEpochs = 40;

// Everything but, when the budget is a time, the number of steps (then estimated). Errors: all contradictions
// with the facts at once (a vocabulary that does not fit, batch and layout that do not divide).
Result<Resolution> resolve(const spec::LoadedSpec& loaded, const MachineFacts& machine,
                           const DataFacts& data);

// Refuses programs that need more than run.memory_fraction of the free memory, over the ranks of this
// process.
Result<void> check_memory(const ResolvedRun& run, const RunPrograms& programs, const MachineFacts& machine);

// Sets steps and schedule from the measured time of a step; keeps a tenth of the budget for evaluation and
// saving. Never more than kMostEpochs.
void finish_budget(Resolution& resolution, double seconds_per_step);

// A guess from the width of the model alone: the efficiency of the nearest narrower shape. The budget is
// estimated with it and a plan shows it; a run measures.
double predicted_seconds_per_step(const ResolvedRun& run, const MachineFacts& machine);

// A shape that is chosen when the configuration names none.
struct ShapeRow {
  int64_t layers, hidden, heads;
  double efficiency;  // share of the machine's matrix peak that a step of this width reaches
};
std::span<const ShapeRow> shape_rows();

// Loss after training `parameters` (without embeddings) on `tokens` of which `unique` are different: the law
// of Muennighoff et al. (2023), "Scaling Data-Constrained Language Models", in which repeated tokens and
// parameters beyond what the unique tokens can fill are worth less and less. It ranks shapes; it was fitted
// far from most runs here and predicts none.
double ranking_loss(double parameters, double tokens, double unique);

}  // namespace ingot::train
