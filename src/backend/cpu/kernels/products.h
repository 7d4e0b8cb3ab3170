#pragma once
// Inside of linear.h and head.h: one tile of a product, in the instructions of this machine. Plain pointers
// only: this header is compiled with instructions that the machine may lack, so it may pull in no inline code
// of others.

#include <cstddef>
#include <cstdint>

namespace ingot::backend::cpu {

inline constexpr int64_t kPanelColumns = 64;     // of packed weights
inline constexpr int64_t kGradientRows = 8;      // panels of the operands of a weight gradient, "pack8"
inline constexpr int64_t kGradientColumns = 48;  //   and "pack48"
inline constexpr int64_t kTileRows = 258;        // at most, of one tile of a product
inline constexpr int64_t kTileColumns = 384;
// Longer reductions go in blocks through an f32 tile on the stack, of at most kLongTileRows rows.
inline constexpr int64_t kLongReduction = 4096;
inline constexpr int64_t kLongTileRows = 132;

// y[rows, columns] = a · W + bias + addend for one tile; strides in elements.
struct ProductTile {
  const void* a = nullptr;
  int64_t a_stride = 0;
  int64_t reduction = 0;              // K
  const std::byte* packed = nullptr;  // panel of the tile's first column
  const float* bias = nullptr;
  const void* addend = nullptr;  // y's type
  int64_t addend_stride = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
  bool y_is_f32 = false;
  bool streaming = false;  // y is too large for caches and 64-byte aligned in every row
  int64_t rows = 0, columns = 0;
};

// c[m, n] (+)= Σ_k a[k, m] b[k, n]; a in pack8 [M/8][K/2][8][2], b in pack48 [N/48][K/2][48][2] (f32: [K] and
// no pairs). `k_stride` is the padded K of the panels.
struct GradientTile {
  const void* a = nullptr;  // panel of the tile's first row
  const void* b = nullptr;  // panel of the tile's first column
  int64_t reduction = 0, k_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool add = false;
  int64_t rows = 0, columns = 0;
};

// Rows [begin, end) of x [total, columns] into panels; begin and end - but the last - multiples of 4. Rows up
// to k_stride are filled with zeros by the block that ends at `total`.
struct PanelPack {
  const void* x = nullptr;
  int64_t x_stride = 0, columns = 0, total = 0;
  void* panels = nullptr;
  int64_t k_stride = 0;
  float* column_sums = nullptr;  // [columns], optional, pack8 only: Σ over the rows of this call
  bool streaming = false;
};

struct ProductKernels {
  void (*product)(const ProductTile&);
  void (*gradient)(const GradientTile&);
  void (*pack8)(const PanelPack&, int64_t begin, int64_t end);
  void (*pack48)(const PanelPack&, int64_t begin, int64_t end);
};

extern const ProductKernels kNativeBf16Products;     // products_bf16.cc, where the machine has avx512_bf16
const ProductKernels& portable_products(bool bf16);  // products_simd.cc

}  // namespace ingot::backend::cpu
