#pragma once
// A run on disk, as the verbs that come after training open it: its configuration, its tokenizer, its newest
// checkpoint.

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer/tokenizer.h"
#include "spec/config.h"
#include "train/checkpointing.h"
#include "train/decoder.h"

namespace ingot::cli {

// True for a folder that training wrote, whole or not: it is never read as a corpus.
bool is_run_folder(const std::string& path);

// config.toml of a run, between a first line that says what it is and a last one that says that it is whole.
Result<void> write_run_configuration(const std::string& run_dir, const spec::RunSpec& spec);

struct RunConfiguration {
  spec::LoadedSpec loaded;
  std::string warning;  // where config.toml was missing or cut off and a checkpoint's copy is used
};
// Errors: mistakes in the file; a missing or cut one where no checkpoint has a copy.
Result<RunConfiguration> load_run_configuration(const std::string& run_dir,
                                                const std::vector<std::string>& overrides);

struct RunFolder {
  std::string path;
  spec::LoadedSpec loaded;
  std::unique_ptr<data::Tokenizer> tokenizer;
  checkpoint::Checkpoint checkpoint;
  std::vector<std::string> notes;  // damaged checkpoints passed over, a configuration that was restored
};

// `path` is a run's folder or one of its checkpoints ("runs/book-1/checkpoints/step-00001000").
Result<RunFolder> open_run(const std::string& path);

// The next free "runs/<stem>-<n>".
std::string next_run_dir(const std::string& stem);

// A decoder with the checkpoint's parameters, at the precision that the run trained with.
Result<std::unique_ptr<train::Decoder>> open_decoder(const RunFolder& run, int threads);

}  // namespace ingot::cli
