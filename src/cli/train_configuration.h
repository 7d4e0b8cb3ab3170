#pragma once
// Which configuration a training command means: a file, a run's folder, or none and texts; and which run
// folder.

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "spec/config.h"

namespace ingot::cli {

struct TrainConfiguration {
  spec::LoadedSpec loaded;  // spec.run.dir is set
  bool begun = false;       // the run folder is of an earlier training, and the command goes on with it
  bool resumable = false;   // and it has checkpoints
  std::vector<std::string> warnings;
};

// A run that was begun goes on with its own configuration and what the command sets besides. Errors: mistakes
// in file and command line, all at once; a run's folder whose configuration is lost.
Result<TrainConfiguration> load_train_configuration(const Arguments& arguments);

// The options of ingot train, and the words that say them again: inputs first, then those options of
// `arguments` that are among them.
std::span<const Option> train_options();
std::vector<std::string> train_words(const Arguments& arguments);

inline constexpr std::string_view kLogFolder = "logs";  // in a run's folder: what ranks other than 0 say

}  // namespace ingot::cli
