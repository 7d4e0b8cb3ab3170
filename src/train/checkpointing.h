#pragma once
// A session to and from checkpoints: which tensors, which facts, and what must agree before a run goes on.

#include <string>

#include "checkpoint/checkpoint.h"
#include "train/session.h"

namespace ingot::train {

// How far a run is. Everything that training carries from step to step besides tensors and scalars.
struct Progress {
  int64_t step = 0;                 // finished steps
  double training_seconds = 0;      // over all its processes
  int64_t skipped_steps = 0;        // updates left out: the gradient norm was not finite
  int64_t clipped_steps = 0;        // updates with a gradient norm above optimizer.clip_grad
  double best_validation_loss = 0;  // meaningless while best_validation_step is 0
  int64_t best_validation_step = 0;
};

// What identifies the data that a run reads.
struct DataIdentity {
  std::string data, tokenizer;  // fingerprints in hexadecimal
};

std::string checkpoint_folder(const std::string& run_dir);  // "<dir>/checkpoints"

// Key by key what makes two models the same.
checkpoint::Fields model_fields(const spec::ModelSpec& model);

// What a rank of the team holds, as the groups "model" and "optimizer" of a checkpoint: memory of its state.
// `writes`: without what another rank writes.
std::vector<checkpoint::TensorGroup> tensor_groups(const Weights& weights, int index, bool writes);

// Every rank of the world writes what it holds; the record and the report are of rank 0.
Result<checkpoint::SaveReport> save_session(Session& session, const std::string& folder,
                                            const Progress& progress, const DataIdentity& identity);

// Fills the session from a checkpoint of any layout: each rank reads what it holds. Errors: damage; another
// model, data or tokenizer, with what to do.
Result<Progress> load_session(Session& session, const checkpoint::Checkpoint& saved,
                              const DataIdentity& identity);

}  // namespace ingot::train
