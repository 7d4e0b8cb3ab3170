// Products of bf16 by vdpbf16ps: built with AVX-512 BF16 and entered only where has_avx512_bf16(). Everything
// here has internal linkage but the table, so that no code of this file can be linked into other callers.

#include "backend/cpu/kernels/avx512_bf16.h"
#include "backend/cpu/kernels/products.h"

namespace ingot::backend::cpu {
namespace {

constexpr int kRowsMax = 6;
constexpr int kVectorsMax = 4;
constexpr int64_t kReductionBlock = 1536;
constexpr int64_t kPrefetchSteps = 8;

// c += rows of a times one panel; a row-major, b [pairs][64][2] of which the first NR·16 columns are used.
template <int MR, int NR>
INGOT_INLINE void multiply(int64_t reduction, const uint16_t* a, int64_t a_stride, const uint16_t* b,
                           F32x16 (&c)[MR][NR]) {
  const int64_t pairs = reduction / 2;
  for (int64_t p = 0; p < pairs; ++p) {
    Bits512 columns[NR];
    for (int j = 0; j < NR; ++j) columns[j] = load_bits(b + j * 32);
    for (int j = 0; j < NR; ++j) prefetch(b + kPrefetchSteps * 128 + j * 32);
    for (int i = 0; i < MR; ++i) {
      const Bits512 pair = broadcast_pair(a + i * a_stride);
      for (int j = 0; j < NR; ++j) c[i][j] = dot_pairs(c[i][j], pair, columns[j]);
    }
    a += 2;
    b += 128;
  }
  if (reduction % 2 != 0) {
    for (int i = 0; i < MR; ++i) {
      const Bits512 last = broadcast_last(a + i * a_stride);
      for (int j = 0; j < NR; ++j) c[i][j] = dot_pairs(c[i][j], last, load_bits(b + j * 32));
    }
  }
}

// One call of the micro-kernel: `begin` null starts from the bias, `partial` null finishes into y.
struct Block {
  const uint16_t* a;
  const uint16_t* b;
  int64_t reduction;
  const float* begin;
  float* partial;
  int64_t scratch_stride;
  int64_t row, column;  // in the tile
};

template <int MR, int NR>
INGOT_INLINE void finish_row(const ProductTile& t, const Block& k, int i, F32x16 (&c)[MR][NR]) {
  const int64_t left = t.columns - k.column;
  if (t.addend != nullptr) {
    const int64_t at = (k.row + i) * t.addend_stride + k.column;
    for (int j = 0; j < NR; ++j) {
      const Mask16 mask = first_lanes(left - j * 16);
      c[i][j] =
          add(c[i][j], t.y_is_f32 ? load_f32(static_cast<const float*>(t.addend) + at + j * 16, mask)
                                  : load_bf16(static_cast<const uint16_t*>(t.addend) + at + j * 16, mask));
    }
  }
  const int64_t at = (k.row + i) * t.y_stride + k.column;
  if (t.y_is_f32) {
    float* y = static_cast<float*>(t.y) + at;
    for (int j = 0; j < NR; ++j) {
      if (t.streaming) {
        stream_f32(y + j * 16, c[i][j]);
      } else {
        store_f32(y + j * 16, c[i][j], first_lanes(left - j * 16));
      }
    }
    return;
  }
  uint16_t* y = static_cast<uint16_t*>(t.y) + at;
  if (NR % 2 == 0 && left >= NR * 16) {
    for (int j = 0; j + 1 < NR; j += 2) store_bf16x32(y + j * 16, c[i][j], c[i][j + 1], t.streaming);
    return;
  }
  for (int j = 0; j < NR; ++j) store_bf16(y + j * 16, c[i][j], first_lanes(left - j * 16));
}

template <int MR, int NR>
void run_block(const ProductTile& t, const Block& k) {
  F32x16 c[MR][NR];
  const float* scratch = k.begin;
  for (int j = 0; j < NR; ++j) {
    const F32x16 bias = t.bias != nullptr && scratch == nullptr
                            ? load_f32(t.bias + k.column + j * 16, first_lanes(t.columns - k.column - j * 16))
                            : zero_f32();
    for (int i = 0; i < MR; ++i) c[i][j] = bias;
  }
  if (scratch != nullptr) {
    for (int i = 0; i < MR; ++i) {
      for (int j = 0; j < NR; ++j) c[i][j] = load_f32(scratch + i * k.scratch_stride + j * 16);
    }
  }
  multiply<MR, NR>(k.reduction, k.a, t.a_stride, k.b, c);
  for (int i = 0; i < MR; ++i) {
    if (k.partial == nullptr) {
      finish_row<MR, NR>(t, k, i, c);
    } else {
      for (int j = 0; j < NR; ++j) store_f32(k.partial + i * k.scratch_stride + j * 16, c[i][j]);
    }
  }
}

using RunBlock = void (*)(const ProductTile&, const Block&);
template <int MR>
constexpr void fill_row(RunBlock (&row)[kVectorsMax]) {
  row[0] = run_block<MR, 1>;
  row[1] = run_block<MR, 2>;
  row[2] = run_block<MR, 3>;
  row[3] = run_block<MR, 4>;
}
struct RunBlockTable {
  RunBlock at[kRowsMax][kVectorsMax]{};
  constexpr RunBlockTable() {
    fill_row<1>(at[0]);
    fill_row<2>(at[1]);
    fill_row<3>(at[2]);
    fill_row<4>(at[3]);
    fill_row<5>(at[4]);
    fill_row<6>(at[5]);
  }
};
constexpr RunBlockTable kRunBlock;

// Rows outer, panels inner: six rows stay in L1, the strip of panels in L2.
void run_reduction(const ProductTile& t, int64_t k_begin, int64_t k_count, float* scratch, bool first,
                   bool last) {
  const int64_t panel = (t.reduction + 1) / 2 * 128;
  const auto* a = static_cast<const uint16_t*>(t.a) + k_begin;
  const auto* b = reinterpret_cast<const uint16_t*>(t.packed) + k_begin * kPanelColumns;
  for (int64_t row = 0; row < t.rows; row += kRowsMax) {
    const int64_t rows = t.rows - row < kRowsMax ? t.rows - row : kRowsMax;
    for (int64_t column = 0; column < t.columns; column += kPanelColumns) {
      const int64_t columns = t.columns - column < kPanelColumns ? t.columns - column : kPanelColumns;
      float* at = scratch == nullptr ? nullptr : scratch + row * kTileColumns + column;
      kRunBlock.at[rows - 1][(columns - 1) / 16](
          t, {a + row * t.a_stride, b + column / kPanelColumns * panel, k_count, first ? nullptr : at,
              last ? nullptr : at, kTileColumns, row, column});
    }
  }
}

void product_tile(const ProductTile& t) {
  if (t.reduction <= kLongReduction) {
    run_reduction(t, 0, t.reduction, nullptr, true, true);
  } else {
    alignas(64) float scratch[kLongTileRows * kTileColumns];
    for (int64_t k = 0; k < t.reduction; k += kReductionBlock) {
      const int64_t left = t.reduction - k;
      const bool last = left <= kReductionBlock;
      run_reduction(t, k, last ? left : kReductionBlock, scratch, k == 0, last);
    }
  }
  if (t.streaming) fence_streams();
}

// 8 rows x 48 columns of a weight gradient over `pairs` pairs.
INGOT_NOINLINE void gradient_block(int64_t pairs, const uint16_t* a, const uint16_t* b, float* c,
                                   int64_t stride, bool add_old, int64_t rows, int64_t columns) {
  F32x16 sum[8][3];
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 3; ++j) sum[i][j] = zero_f32();
  }
  if (add_old) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int j = 0; j < 3; ++j) prefetch(c + i * stride + j * 16);
    }
  }
  for (int64_t p = 0; p < pairs; ++p) {
    Bits512 columns_b[3];
    for (int j = 0; j < 3; ++j) columns_b[j] = load_bits(b + j * 32);
    for (int j = 0; j < 3; ++j) prefetch(b + kPrefetchSteps * 96 + j * 32);
    for (int i = 0; i < 8; ++i) {
      const Bits512 pair = broadcast_pair(a + i * 2);
      for (int j = 0; j < 3; ++j) sum[i][j] = dot_pairs(sum[i][j], pair, columns_b[j]);
    }
    a += 16;
    b += 96;
  }
  for (int i = 0; i < 8; ++i) {
    if (i >= rows) break;
    for (int j = 0; j < 3; ++j) {
      const Mask16 mask = first_lanes(columns - j * 16);
      float* at = c + i * stride + j * 16;
      store_f32(at, add_old ? add(sum[i][j], load_f32(at, mask)) : sum[i][j], mask);
    }
  }
}

constexpr int64_t kGradientBlock = 2048;

void gradient_tile(const GradientTile& t) {
  const auto* a = static_cast<const uint16_t*>(t.a);
  const auto* b = static_cast<const uint16_t*>(t.b);
  for (int64_t k = 0; k < t.reduction; k += kGradientBlock) {
    const int64_t count = t.reduction - k < kGradientBlock ? t.reduction - k : kGradientBlock;
    for (int64_t row = 0; row < t.rows; row += kGradientRows) {
      for (int64_t column = 0; column < t.columns; column += kGradientColumns) {
        gradient_block(count / 2, a + row * t.k_stride + k * kGradientRows,
                       b + column * t.k_stride + k * kGradientColumns, t.c + row * t.c_stride + column,
                       t.c_stride, t.add || k > 0, t.rows - row, t.columns - column);
      }
    }
  }
}

// Pairs of rows (r, r + 1) of 16 columns, interleaved; rows at or after `total` are zero.
INGOT_INLINE Bits512 row_pair(const PanelPack& p, int64_t row, int64_t column, Mask16 mask) {
  const uint16_t* x = static_cast<const uint16_t*>(p.x) + row * p.x_stride + column;
  return interleave(load_bits256(x, row < p.total ? mask : Mask16{0}),
                    load_bits256(x + p.x_stride, row + 1 < p.total ? mask : Mask16{0}));
}

void pack8(const PanelPack& p, int64_t begin, int64_t end) {
  const int64_t stop = end == p.total ? p.k_stride : end;
  for (int64_t column = 0; column < p.columns; column += 16) {
    const Mask16 mask = first_lanes(p.columns - column);
    uint16_t* low = static_cast<uint16_t*>(p.panels) + column * p.k_stride;
    uint16_t* high = low + 8 * p.k_stride;
    const bool has_high = column + 8 < p.columns;
    F32x16 sum = zero_f32();
    for (int64_t row = begin; row < stop; row += 4) {
      const uint16_t* ahead = static_cast<const uint16_t*>(p.x) + row * p.x_stride + column + 32;
      for (int64_t i = 0; i < 4; ++i) prefetch(ahead + i * p.x_stride);
      const Bits512 first = row_pair(p, row, column, mask), second = row_pair(p, row + 2, column, mask);
      store_bits(low + row * 8, low_halves(first, second), p.streaming);
      if (has_high) store_bits(high + row * 8, high_halves(first, second), p.streaming);
      if (p.column_sums != nullptr) sum = dot_pairs(dot_pairs(sum, first, ones_bf16()), second, ones_bf16());
    }
    if (p.column_sums != nullptr) store_f32(p.column_sums + column, sum, mask);
  }
  if (p.streaming) fence_streams();
}

void pack48(const PanelPack& p, int64_t begin, int64_t end) {
  const int64_t stop = end == p.total ? p.k_stride : end;
  for (int64_t panel = 0; panel < p.columns; panel += kGradientColumns) {
    uint16_t* out = static_cast<uint16_t*>(p.panels) + panel * p.k_stride;
    for (int64_t row = begin; row < stop; row += 2) {
      const uint16_t* ahead = static_cast<const uint16_t*>(p.x) + row * p.x_stride + panel + 96;
      prefetch(ahead);
      prefetch(ahead + p.x_stride);
      for (int64_t j = 0; j < kGradientColumns; j += 16) {
        store_bits(out + row * kGradientColumns + j * 2,
                   row_pair(p, row, panel + j, first_lanes(p.columns - panel - j)), p.streaming);
      }
    }
  }
  if (p.streaming) fence_streams();
}

}  // namespace

const ProductKernels kNativeBf16Products{product_tile, gradient_tile, pack8, pack48};

}  // namespace ingot::backend::cpu
