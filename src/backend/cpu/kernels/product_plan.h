#pragma once
// Inside of linear.h and head.h: how a whole product is cut into tiles, by shape alone, and run over the
// pool.

#include "backend/cpu/kernels/cpu.h"
#include "backend/cpu/kernels/products.h"

namespace ingot::backend::cpu {

const ProductKernels& product_kernels(const Cpu& cpu, tensor::DType dtype);

struct TilePlan {
  int64_t rows = 0, columns = 0;  // of one tile
  int64_t row_tiles = 0, column_tiles = 0;
};
TilePlan plan_product(tensor::DType dtype, int64_t rows, int64_t reduction, int64_t columns);

// The tile `whole` is the whole product.
void run_product(const Cpu& cpu, tensor::DType dtype, const ProductTile& whole);

// Whether [rows, columns] is better written past the caches: large, and every row whole cache lines.
bool streams(const void* y, int64_t rows, int64_t columns, int64_t element);

struct GradientPlan {
  int64_t k_stride = 0;    // rows, padded
  int64_t row_blocks = 0;  // tasks of packing, partial sums of a bias gradient
  int64_t pack8_bytes = 0, pack48_bytes = 0, sums_bytes = 0;
};
GradientPlan plan_gradient(tensor::DType dtype, int64_t rows, int64_t out_features, int64_t in_features);
void run_gradient(const Cpu& cpu, tensor::DType dtype, const GradientTile& whole);

// to = beta · to + Σ over blocks of sums [blocks, to's elements], in order; to is f32.
void add_partial_sums(const Cpu& cpu, const float* sums, int64_t blocks, float beta,
                      const tensor::TensorView& to);

}  // namespace ingot::backend::cpu
