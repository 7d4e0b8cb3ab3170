#include "checkpoint/formats/tensor_mapping.h"

#include <algorithm>

#include "base/check.h"

namespace ingot::checkpoint {
namespace {

int64_t rows_of(const tensor::Shape& shape) { return shape.rank() == 0 ? 1 : shape[0]; }

int64_t columns_of(const tensor::Shape& shape) {
  const int64_t rows = rows_of(shape);
  return rows == 0 ? 0 : shape.elements() / rows;
}

int64_t their_rows(const TensorMapping& mapping) {
  return mapping.rows == 0 ? rows_of(mapping.shape) : mapping.rows;
}

tensor::Shape their_shape(const TensorMapping& mapping) {
  if (mapping.shape.rank() == 0) return mapping.shape;
  const tensor::Shape whole = mapping.shape.with(0, their_rows(mapping));
  if (!mapping.transposed) return whole;
  INGOT_CHECK(whole.rank() == 2, "{} of shape {} cannot be transposed", mapping.name,
              mapping.shape.to_string());
  return {whole[1], whole[0]};
}

void check_filled(TheirTensor& tensor) {
  std::stable_sort(tensor.parts.begin(), tensor.parts.end(),
                   [](const TensorMapping* a, const TensorMapping* b) { return a->row < b->row; });
  int64_t next = 0;
  for (const TensorMapping* part : tensor.parts) {
    INGOT_CHECK(part->row == next && their_shape(*part) == tensor.shape,
                "{} fills {} of shape {} from row {} with shape {}; row {} is next", part->name, tensor.name,
                tensor.shape.to_string(), part->row, their_shape(*part).to_string(), next);
    next += rows_of(part->shape);
  }
  const int64_t rows = their_rows(*tensor.parts.front());
  INGOT_CHECK(next == rows, "{} has {} rows, of which {} are filled", tensor.name, rows, next);
}

}  // namespace

std::vector<TheirTensor> their_tensors(std::span<const TensorMapping> table) {
  std::vector<TheirTensor> out;
  std::map<std::string_view, size_t> position;
  for (const TensorMapping& mapping : table) {
    const auto [found, added] = position.emplace(mapping.theirs, out.size());
    if (added) out.push_back({mapping.theirs, their_shape(mapping), {}});
    out[found->second].parts.push_back(&mapping);
  }
  for (TheirTensor& tensor : out) check_filled(tensor);
  return out;
}

Strides strides_of(const TensorMapping& mapping) {
  Strides out;
  out.rows = rows_of(mapping.shape);
  out.columns = columns_of(mapping.shape);
  out.row_stride = mapping.transposed ? 1 : out.columns;
  out.column_stride = mapping.transposed ? their_rows(mapping) : 1;
  out.begin = mapping.row * out.row_stride;
  return out;
}

}  // namespace ingot::checkpoint
