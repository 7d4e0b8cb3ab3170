#pragma once
// The batch fields of an executor's input buffers, as the data layer fills them.

#include "data/loader.h"
#include "runtime/runtime.h"

namespace ingot::train {

// What of a sample of seq_len positions `rank` reads: all, or its part in context parallelism.
data::Slice slice_of(const graph::Mesh& mesh, int rank, int64_t seq_len);

// One view per micro-batch of side 0 or 1, `width` positions a sample. Fields that the program does not read
// are empty.
data::StepBuffer batch_views(const runtime::Executor& executor, int side, int64_t batch, int64_t width);

}  // namespace ingot::train
