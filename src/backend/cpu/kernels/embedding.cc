#include "backend/cpu/kernels/embedding.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/float_types.h"
#include "backend/cpu/kernels/span_operations.h"

namespace ingot::backend::cpu {

using tensor::DType;
using tensor::TensorView;

void embedding_forward(const Cpu& cpu, const EmbeddingArgs& args) {
  constexpr int64_t kRows = 16;
  check_float(args.table);
  check_float(args.y);
  const int64_t rows = args.y.shape.rows(), channels = args.y.shape.last(),
                vocabulary = args.table.shape.rows();
  INGOT_CHECK(args.ids.elements() == rows && args.table.shape.last() == channels, "{} ids, table {}, y {}",
              args.ids.elements(), args.table.shape.to_string(), args.y.shape.to_string());
  const int64_t from = tensor::size_of(args.table.dtype), to = tensor::size_of(args.y.dtype);
  const unsigned types =
      (args.table.dtype == DType::kBF16 ? 1U : 0U) | (args.y.dtype == DType::kBF16 ? 2U : 0U);
  cpu.pool.parallel_for((rows + kRows - 1) / kRows, [&](int64_t tile, int) {
    for (int64_t row = tile * kRows; row < std::min(rows, (tile + 1) * kRows); ++row) {
      const int64_t id = args.ids.as<const int32_t>()[row] - args.first_id;
      std::byte* y = args.y.as<std::byte>() + row * channels * to;
      if (id < 0 || id >= vocabulary) {
        std::memset(y, 0, static_cast<size_t>(channels * to));
        continue;
      }
      run_cast_span({types, args.table.as<const std::byte>() + id * channels * from, 1.0F, y}, 0, channels);
    }
  });
}

void embedding_gradient(const Cpu& cpu, const EmbeddingGradientArgs& args) {
  constexpr int64_t kColumns = 64;
  constexpr int64_t kZeroRows = 512;
  check_float(args.dy);
  const int64_t rows = args.dy.shape.rows(), channels = args.dy.shape.last();
  const int64_t vocabulary = args.dtable.shape.rows();
  INGOT_CHECK(
      args.ids.elements() == rows && args.dtable.shape.last() == channels && args.dtable.dtype == DType::kF32,
      "{} ids, gradient of the table {}, dy {}", args.ids.elements(), args.dtable.shape.to_string(),
      args.dy.shape.to_string());
  auto* table = args.dtable.as<float>();
  if (args.beta == 0) {
    cpu.pool.parallel_for((vocabulary + kZeroRows - 1) / kZeroRows, [&](int64_t tile, int) {
      const int64_t begin = tile * kZeroRows, end = std::min(vocabulary, begin + kZeroRows);
      std::fill(table + begin * channels, table + end * channels, 0.0F);
    });
  }
  // A task owns columns, so that rows of one id are added in the order of tokens by one thread.
  const int64_t element = tensor::size_of(args.dy.dtype);
  cpu.pool.parallel_for((channels + kColumns - 1) / kColumns, [&](int64_t tile, int) {
    const int64_t begin = tile * kColumns, count = std::min(kColumns, channels - begin);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t id = args.ids.as<const int32_t>()[row] - args.first_id;
      if (id < 0 || id >= vocabulary) continue;
      float* to = table + id * channels + begin;
      run_add_span({args.dy.dtype == DType::kBF16 ? 2U : 0U, to,
                    args.dy.as<const std::byte>() + (row * channels + begin) * element, 1.0F, to},
                   0, count);
    }
  });
}

}  // namespace ingot::backend::cpu
