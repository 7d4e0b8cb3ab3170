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

struct RunFolder {
  std::string path;
  spec::LoadedSpec loaded;
  std::unique_ptr<data::Tokenizer> tokenizer;
  checkpoint::Checkpoint checkpoint;
  std::vector<std::string> notes;  // damaged checkpoints passed over
};

// `path` is a run's folder or one of its checkpoints ("runs/book-1/checkpoints/step-00001000").
Result<RunFolder> open_run(const std::string& path);

// The next free "runs/<stem>-<n>".
std::string next_run_dir(const std::string& stem);

// A decoder with the checkpoint's parameters, at the precision that the run trained with.
Result<std::unique_ptr<train::Decoder>> open_decoder(const RunFolder& run, int threads);

}  // namespace ingot::cli
