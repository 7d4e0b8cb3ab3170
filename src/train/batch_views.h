#pragma once
// The batch fields of an executor's input buffers, as the data layer fills them.

#include "data/loader.h"
#include "runtime/runtime.h"

namespace ingot::train {

// One view per micro-batch of side 0 or 1. Fields that the program does not read are empty.
data::StepBuffer batch_views(const runtime::Executor& executor, int side, int64_t batch, int64_t seq_len);

}  // namespace ingot::train
