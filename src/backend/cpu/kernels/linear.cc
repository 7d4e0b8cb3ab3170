#include "backend/cpu/kernels/linear.h"

#include <algorithm>

#include "backend/cpu/kernels/float_types.h"
#include "backend/cpu/kernels/product_plan.h"
#include "backend/cpu/kernels/products.h"
#include "base/check.h"

namespace ingot::backend::cpu {
namespace {

using tensor::DType;
using tensor::TensorView;

constexpr int64_t kPackRows = 64;  // of one task, and of one partial sum of the bias gradient

int64_t tiles_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

}  // namespace

const ProductKernels& product_kernels(const Cpu& cpu, DType dtype) {
#if INGOT_AVX512_BF16
  if (dtype == DType::kBF16 && cpu.native_bf16) return kNativeBf16Products;
#else
  static_cast<void>(cpu);
#endif
  return portable_products(dtype == DType::kBF16);
}

TilePlan plan_product(DType dtype, int64_t rows, int64_t reduction, int64_t columns) {
  constexpr int64_t kStripBytes = 800 << 10;  // of packed weights: most of an L2 cache
  constexpr int64_t kEnoughTiles = 12;
  constexpr int64_t kHeights[] = {kTileRows, kLongTileRows, 66, 30};
  constexpr int64_t kCallRows = 6;  // of the micro-kernel: only the last tile should end in fewer
  const bool long_reduction = reduction > kLongReduction;
  TilePlan plan;
  const int64_t strip = kStripBytes / (reduction * tensor::size_of(dtype)) / kPanelColumns * kPanelColumns;
  plan.columns = long_reduction ? kTileColumns : std::clamp(strip, 2 * kPanelColumns, kTileColumns);
  plan.column_tiles = tiles_of(columns, plan.columns);
  for (const int64_t height : kHeights) {
    if (long_reduction && height > kLongTileRows) continue;
    plan.rows = tiles_of(tiles_of(rows, tiles_of(rows, height)), kCallRows) * kCallRows;
    plan.row_tiles = tiles_of(rows, plan.rows);
    if (plan.row_tiles * plan.column_tiles >= kEnoughTiles) break;
  }
  return plan;
}

void run_product(const Cpu& cpu, DType dtype, const ProductTile& whole) {
  const ProductKernels& kernels = product_kernels(cpu, dtype);
  const TilePlan plan = plan_product(dtype, whole.rows, whole.reduction, whole.columns);
  const int64_t element = tensor::size_of(dtype), y_element = whole.y_is_f32 ? 4 : 2;
  const int64_t padded = dtype == DType::kBF16 ? (whole.reduction + 1) / 2 * 2 : whole.reduction;
  // Rows vary fastest: tiles that run at the same time share a strip of weights.
  cpu.pool.parallel_for(plan.row_tiles * plan.column_tiles, [&](int64_t tile, int) {
    const int64_t row = tile % plan.row_tiles * plan.rows, column = tile / plan.row_tiles * plan.columns;
    ProductTile t = whole;
    t.a = static_cast<const std::byte*>(whole.a) + row * whole.a_stride * element;
    t.packed = whole.packed + column * padded * element;
    t.bias = whole.bias == nullptr ? nullptr : whole.bias + column;
    if (whole.addend != nullptr) {
      t.addend =
          static_cast<const std::byte*>(whole.addend) + (row * whole.addend_stride + column) * y_element;
    }
    t.y = static_cast<std::byte*>(whole.y) + (row * whole.y_stride + column) * y_element;
    t.rows = std::min(plan.rows, whole.rows - row);
    t.columns = std::min(plan.columns, whole.columns - column);
    kernels.product(t);
  });
}

void product(const Cpu& cpu, const ProductArgs& args) {
  const DType dtype = args.a.dtype;
  check_float(args.a);
  check_float(args.y);
  const int64_t rows = args.a.shape.rows(), reduction = args.a.shape.last(), columns = args.y.shape.last();
  INGOT_CHECK(args.y.shape.rows() == rows, "y {} does not have the rows of a {}", args.y.shape.to_string(),
              args.a.shape.to_string());
  INGOT_CHECK(dtype == DType::kBF16 || args.y.dtype == DType::kF32, "a product of f32 gives f32");
  const int64_t packed = packed_weight_bytes(dtype, WeightUse::kForward, columns, reduction);
  INGOT_CHECK(static_cast<int64_t>(args.packed.size()) >= packed, "{} packed bytes given, {} needed",
              args.packed.size(), packed);
  INGOT_CHECK(args.bias.data == nullptr || args.bias.elements() == columns, "bias {} for {} columns",
              args.bias.shape.to_string(), columns);
  INGOT_CHECK(args.addend.data == nullptr ||
                  (args.addend.dtype == args.y.dtype && args.addend.elements() == args.y.elements()),
              "addend {} differs from y {}", args.addend.shape.to_string(), args.y.shape.to_string());
  run_product(cpu, dtype,
              {.a = args.a.data,
               .a_stride = reduction,
               .reduction = reduction,
               .packed = args.packed.data(),
               .bias = args.bias.as<const float>(),
               .addend = args.addend.data,
               .addend_stride = columns,
               .y = args.y.data,
               .y_stride = columns,
               .y_is_f32 = args.y.dtype == DType::kF32,
               .streaming = streams(args.y.data, rows, columns, tensor::size_of(args.y.dtype)),
               .rows = rows,
               .columns = columns});
}

bool streams(const void* y, int64_t rows, int64_t columns, int64_t element) {
  constexpr int64_t kCached = 4 << 20;
  return rows * columns * element >= kCached && columns * element % 64 == 0 &&
         reinterpret_cast<uintptr_t>(y) % 64 == 0;
}

GradientPlan plan_gradient(DType dtype, int64_t rows, int64_t out_features, int64_t in_features) {
  GradientPlan plan;
  plan.k_stride = (rows + 3) / 4 * 4;
  plan.row_blocks = tiles_of(rows, kPackRows);
  const int64_t element = tensor::size_of(dtype);
  const auto padded = [](int64_t n, int64_t to) { return tiles_of(n, to) * to; };
  plan.pack8_bytes = tensor::align_up(padded(out_features, kGradientRows) * plan.k_stride * element);
  plan.pack48_bytes = tensor::align_up(padded(in_features, kGradientColumns) * plan.k_stride * element);
  plan.sums_bytes = tensor::align_up(plan.row_blocks * out_features * 4);
  return plan;
}

int64_t weight_gradient_workspace_bytes(DType dtype, int64_t rows, int64_t out_features,
                                        int64_t in_features) {
  const GradientPlan plan = plan_gradient(dtype, rows, out_features, in_features);
  return plan.pack8_bytes + plan.pack48_bytes + plan.sums_bytes;
}

void run_gradient(const Cpu& cpu, DType dtype, const GradientTile& whole) {
  const ProductKernels& kernels = product_kernels(cpu, dtype);
  const int64_t element = tensor::size_of(dtype);
  constexpr int64_t kStripBytes = 800 << 10;  // of b: most of an L2 cache
  constexpr int64_t kEnoughTiles = 8;
  constexpr int64_t kWidth = 192, kHeight = 384;
  // A short reduction leaves room for a wide strip; then a is read once.
  const int64_t strip = kStripBytes / (std::min<int64_t>(whole.reduction, 2048) * element);
  int64_t width = std::clamp(strip / kWidth * kWidth, kWidth, 4 * kWidth);
  while (width > kWidth && width >= whole.columns + kWidth) width -= kWidth;
  int64_t height = width > kWidth ? kHeight / 4 : kHeight;
  const auto tiles = [&] { return tiles_of(whole.rows, height) * tiles_of(whole.columns, width); };
  while (height > 48 && tiles() < kEnoughTiles) height /= 2;
  while (width > kGradientColumns && tiles() < kEnoughTiles) width /= 2;
  width = tiles_of(width, kGradientColumns) * kGradientColumns;
  const int64_t row_tiles = tiles_of(whole.rows, height);
  // Rows vary fastest: tiles that run at the same time share a strip of b.
  cpu.pool.parallel_for(row_tiles * tiles_of(whole.columns, width), [&](int64_t tile, int) {
    const int64_t row = tile % row_tiles * height, column = tile / row_tiles * width;
    GradientTile t = whole;
    t.a = static_cast<const std::byte*>(whole.a) + row * whole.k_stride * element;
    t.b = static_cast<const std::byte*>(whole.b) + column * whole.k_stride * element;
    t.c = whole.c + row * whole.c_stride + column;
    t.rows = std::min(height, whole.rows - row);
    t.columns = std::min(width, whole.columns - column);
    kernels.gradient(t);
  });
}

void add_partial_sums(const Cpu& cpu, const float* sums, int64_t blocks, float beta, const TensorView& to) {
  constexpr int64_t kColumns = 256;
  const int64_t n = to.elements();
  cpu.pool.parallel_for(tiles_of(n, kColumns), [&](int64_t tile, int) {
    const int64_t end = std::min(n, (tile + 1) * kColumns);
    for (int64_t i = tile * kColumns; i < end; ++i) {
      float sum = beta == 0 ? 0.0F : to.as<float>()[i];
      for (int64_t block = 0; block < blocks; ++block) sum += sums[block * n + i];
      to.as<float>()[i] = sum;
    }
  });
}

void weight_gradient(const Cpu& cpu, const WeightGradientArgs& args) {
  const DType dtype = args.x.dtype;
  check_float(args.x);
  const int64_t rows = args.x.shape.rows(), in = args.x.shape.last(), out = args.dy.shape.last();
  INGOT_CHECK(args.dy.shape.rows() == rows && args.dy.dtype == dtype, "dy {} does not fit x {}",
              args.dy.shape.to_string(), args.x.shape.to_string());
  const GradientPlan plan = plan_gradient(dtype, rows, out, in);
  INGOT_CHECK(
      static_cast<int64_t>(args.workspace.size()) >= weight_gradient_workspace_bytes(dtype, rows, out, in),
      "workspace of {} bytes is too small", args.workspace.size());
  INGOT_CHECK(args.dw.data == nullptr || args.dw.elements() == out * in, "dw {} is not [{}, {}]",
              args.dw.shape.to_string(), out, in);
  const ProductKernels& kernels = product_kernels(cpu, dtype);
  std::byte* pack8 = args.workspace.data();
  std::byte* pack48 = pack8 + plan.pack8_bytes;
  auto* sums = args.db.data == nullptr ? nullptr : reinterpret_cast<float*>(pack48 + plan.pack48_bytes);
  const bool streaming = streams(pack8, rows, std::min(in, out), 64);
  const int64_t x_blocks = args.dw.data == nullptr ? 0 : plan.row_blocks;
  cpu.pool.parallel_for(plan.row_blocks + x_blocks, [&](int64_t tile, int) {
    const int64_t block = tile < x_blocks ? tile : tile - x_blocks;
    const int64_t begin = block * kPackRows, end = std::min(rows, begin + kPackRows);
    if (tile < x_blocks) {
      kernels.pack48({args.x.data, in, in, rows, pack48, plan.k_stride, nullptr, streaming}, begin, end);
    } else {
      float* block_sums = sums == nullptr ? nullptr : sums + block * out;
      kernels.pack8({args.dy.data, out, out, rows, pack8, plan.k_stride, block_sums, streaming}, begin, end);
    }
  });
  if (sums != nullptr) add_partial_sums(cpu, sums, plan.row_blocks, args.beta, args.db);
  if (args.dw.data == nullptr) return;
  run_gradient(cpu, dtype,
               {.a = pack8,
                .b = pack48,
                .reduction = plan.k_stride,
                .k_stride = plan.k_stride,
                .c = args.dw.as<float>(),
                .c_stride = in,
                .add = args.beta != 0,
                .rows = out,
                .columns = in});
}

}  // namespace ingot::backend::cpu
