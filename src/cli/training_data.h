#pragma once
// The data that a configuration names, opened (built where it is text), with its identity.

#include "data/prepared.h"
#include "spec/spec.h"
#include "train/checkpointing.h"
#include "train/resolve.h"

namespace ingot::cli {

struct TrainingData {
  data::PreparedData prepared;
  train::DataIdentity identity;
  train::DataFacts facts() const;
};

// `tokenizer` is used where the configuration names none; empty: chosen.
Result<TrainingData> open_training_data(const spec::RunSpec& spec, const std::string& tokenizer,
                                        const data::BuildProgressCallback& progress = {});

}  // namespace ingot::cli
