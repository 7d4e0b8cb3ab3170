#pragma once
// A run folder that training meets again: what a new command changes in it, and whether anything is left to
// do.

#include <optional>
#include <string>
#include <vector>

#include "spec/config.h"
#include "train/checkpointing.h"

namespace ingot::cli {

// Keys that `loaded` sets to something else than the run's own configuration has, in two kinds. What a run
// cannot change (model, order of the data, batch) is an error, all keys at once, with the remedy; the rest
// are returned as "optimizer.learning_rate: 0.0006 before, 0.0003 now".
Result<std::vector<std::string>> changes_of_begun_run(const std::string& run_dir,
                                                      const spec::LoadedSpec& loaded);

// That text and tokenizer are those that the newest checkpoint was trained on: another text is another order
// of data, and weights mean nothing with another tokenizer.
Result<void> check_same_data(const std::string& run_dir, const std::vector<std::string>& train,
                             const train::DataIdentity& now);

// What a run that used its budget up has to say; empty where steps are left. `run_dir` has checkpoints.
struct FinishedRun {
  std::string what;  // "all 2,000 steps are done, validation loss 1.881 (best, step 2,000)"
  std::string more;  // the command that goes on
};
Result<std::optional<FinishedRun>> finished_run(const std::string& run_dir, const spec::RunSpec& spec);

}  // namespace ingot::cli
