#pragma once
// A TensorMapping as a strided copy. Private to formats/: hugging_face.h is the interface.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/formats/hugging_face.h"

namespace ingot::checkpoint {

// One tensor of theirs and the parameters that fill it, in order of rows.
struct TheirTensor {
  std::string name;
  tensor::Shape shape;  // as stored there
  std::vector<const TensorMapping*> parts;
};

// In the order in which `table` first names them. A table that leaves rows out, or fills some twice, is a
// check.
std::vector<TheirTensor> their_tensors(std::span<const TensorMapping> table);

// Where element (row, column) of a part lies in theirs: row * row_stride + column * column_stride, from
// `begin`.
struct Strides {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t begin = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};
Strides strides_of(const TensorMapping& mapping);

// Calls copy(ours, theirs) for every element, in blocks that stay in cache when transposed.
template <class Copy>
void for_each_element(const Strides& strides, const Copy& copy) {
  constexpr int64_t kBlock = 64;
  for (int64_t row0 = 0; row0 < strides.rows; row0 += kBlock) {
    const int64_t row1 = row0 + kBlock < strides.rows ? row0 + kBlock : strides.rows;
    for (int64_t column0 = 0; column0 < strides.columns; column0 += kBlock) {
      const int64_t column1 = column0 + kBlock < strides.columns ? column0 + kBlock : strides.columns;
      for (int64_t row = row0; row < row1; ++row) {
        for (int64_t column = column0; column < column1; ++column) {
          copy(row * strides.columns + column,
               strides.begin + row * strides.row_stride + column * strides.column_stride);
        }
      }
    }
  }
}

}  // namespace ingot::checkpoint
