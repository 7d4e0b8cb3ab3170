#pragma once
// Proof that a run is what it says: train a part of it again and compare with what was saved.

#include "train/checkpointing.h"

namespace ingot::train {

// Loads the checkpoint `from`, trains to the step of `to` and compares. Returns one sentence per tensor or
// scalar whose bits differ; empty: all are the same.
Result<std::vector<std::string>> replay(const ResolvedRun& run, const data::TokenStream& stream,
                                        const DataIdentity& identity, const std::string& from,
                                        const std::string& to);

}  // namespace ingot::train
