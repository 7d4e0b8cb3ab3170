#pragma once
// What the operands of collectives mean in memory, the same for every transport. Internal to comm.

#include <span>

#include "comm/comm.h"

namespace ingot::comm {

// A tensor as `outer` runs of `inner` elements: one run for each index before `dim`, holding what one index
// of those and all of `dim` and after hold.
struct Blocks {
  int64_t outer = 1, inner = 0;
};
Blocks blocks_of(const tensor::Shape& shape, int dim);

int64_t bytes_of_row(const TensorView& tensor);  // of one index of the first dimension
// One count for each member, whose sum is the rows of the tensor.
void check_rows(const TensorView& tensor, std::span<const int64_t> rows, int members);
// Errors: a rank outside the world, twice in the list, or `own` not in it.
Result<void> check_members(std::span<const int> ranks, int own, int world);

// Errors: a mesh of another size.
Result<void> check_world(const graph::Mesh& mesh, int world);

// What a member says of its call, for people.
struct CallWords {
  int rank = 0;
  std::string call;  // describe_call()
  tensor::DType dtype = tensor::DType::kF32;
  int detail = -1;  // dimension, root or tag
  uint64_t sequence = 0;
};
// kFault: two members make calls that do not belong together.
Error differing_calls(const CallWords& one, const CallWords& other);

}  // namespace ingot::comm
