#pragma once
// The sum of the members' parts, in index order: ((0 + 1) + 2) ... f64 adds in double, integers exactly,
// every other type in float32 and rounds once.

#include <span>

#include "tensor/tensor.h"

namespace ingot::comm {

// For elements [first, first + count) of each part: writes the sum to elements [out_first, ...) of every
// output. An output may be one of the parts where out_first = first.
void sum_in_order(tensor::DType dtype, std::span<const void* const> parts, int64_t first, int64_t count,
                  std::span<void* const> outputs, int64_t out_first);

}  // namespace ingot::comm
