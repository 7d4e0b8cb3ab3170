// Products in f32 arithmetic for f32 and bf16 operands, on any machine: the loops of products_bf16.cc with
// lanes of f32. Packed layouts are the same, so that a program does not depend on the machine's instructions.

#include "backend/cpu/kernels/products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/products_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/kernels/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

// Sixteen registers hold 6 x 2 sums and what they need, thirty-two 6 x 4.
constexpr int kVectors = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 4 : 2;
constexpr int kRowsMax = 6;
// Of a weight gradient: rows and vectors of one call; the vectors divide 48 columns.
constexpr int kGradientCallRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
constexpr int kGradientVectors = HWY_TARGET <= HWY_AVX3 ? 3 : kVectors;
constexpr int64_t kReductionBlock = 1536;
constexpr int64_t kGradientBlock = 512;  // eight rows of it take half of an L1 cache in f32

template <class T>
constexpr int64_t kPairs = sizeof(T) == 2 ? 2
                                          : 1;  // elements of the reduction that lie side by side in a panel

// c += MR rows of a times NV vectors of one panel. `row_step` elements between rows, `k_step` between groups
// of kPairs.
template <int MR, int NV>
HWY_INLINE void multiply(int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b,
                         int64_t b_step, F32Vec (&c)[MR][NV]) {
  const F32Tag d;
  const int64_t n = lanes();
  for (int64_t p = 0; p < k; ++p) {
    F32Vec columns[NV];
    for (int j = 0; j < NV; ++j) columns[j] = hn::LoadU(d, b + j * n);
    for (int i = 0; i < MR; ++i) {
      const F32Vec value = hn::Set(d, a[i * row_step]);
      for (int j = 0; j < NV; ++j) c[i][j] = hn::MulAdd(value, columns[j], c[i][j]);
    }
    a += k_step;
    b += b_step;
  }
}

template <int MR, int NV>
HWY_INLINE void multiply(int64_t k, const Bf16* a, int64_t row_step, int64_t k_step, const Bf16* b,
                         int64_t b_step, F32Vec (&c)[MR][NV]) {
  const F32Tag d;
  const hn::Rebind<uint32_t, F32Tag> du;
  const int64_t n = lanes();
  for (int64_t p = 0; p < k; p += 2) {
    F32Vec even[NV], odd[NV];
    for (int j = 0; j < NV; ++j) {
      const auto pair = hn::LoadU(du, reinterpret_cast<const uint32_t*>(b) + j * n);
      even[j] = hn::BitCast(d, hn::ShiftLeft<16>(pair));
      odd[j] = hn::BitCast(d, hn::And(pair, hn::Set(du, 0xffff0000U)));
    }
    const bool has_odd = p + 1 < k;
    for (int i = 0; i < MR; ++i) {
      const F32Vec first = hn::Set(d, to_f32(a[i * row_step]));
      const F32Vec second = hn::Set(d, has_odd ? to_f32(a[i * row_step + 1]) : 0.0F);
      for (int j = 0; j < NV; ++j) {
        c[i][j] = hn::MulAdd(second, odd[j], hn::MulAdd(first, even[j], c[i][j]));
      }
    }
    a += k_step;
    b += b_step;
  }
}

struct Block {
  int64_t k = 0;
  const float* begin = nullptr;  // null: from the bias
  float* partial = nullptr;      // null: into y
  int64_t row = 0, column = 0;   // in the tile
};

template <class Y>
HWY_INLINE void finish(const ProductTile& t, int64_t row, int64_t column, F32Vec c) {
  const int64_t n = std::min(lanes(), t.columns - column);
  if (t.addend != nullptr) {
    c = hn::Add(c, load_first(static_cast<const Y*>(t.addend) + row * t.addend_stride + column, n));
  }
  store_first(c, static_cast<Y*>(t.y) + row * t.y_stride + column, n);
}

template <class T, int MR>
void run_block(const ProductTile& t, const Block& block, const T* a, const T* b) {
  const int64_t n = lanes();
  F32Vec c[MR][kVectors];
  for (int j = 0; j < kVectors; ++j) {
    const int64_t column = block.column + j * n;
    F32Vec bias = hn::Zero(F32Tag());
    if (t.bias != nullptr && block.begin == nullptr && column < t.columns) {
      bias = load_first(t.bias + column, std::min(n, t.columns - column));
    }
    for (int i = 0; i < MR; ++i) {
      c[i][j] = block.begin == nullptr ? bias : hn::LoadU(F32Tag(), block.begin + i * kTileColumns + j * n);
    }
  }
  multiply<MR, kVectors>(block.k, a, t.a_stride, kPairs<T>, b, kPanelColumns * kPairs<T>, c);
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      if (block.partial != nullptr) {
        hn::StoreU(c[i][j], F32Tag(), block.partial + i * kTileColumns + j * n);
      } else if (block.column + j * n < t.columns) {
        if (t.y_is_f32) {
          finish<float>(t, block.row + i, block.column + j * n, c[i][j]);
        } else {
          finish<Bf16>(t, block.row + i, block.column + j * n, c[i][j]);
        }
      }
    }
  }
}

template <class T>
void run_rows(int64_t rows, const ProductTile& t, const Block& block, const T* a, const T* b) {
  switch (rows) {
    case 1:
      return run_block<T, 1>(t, block, a, b);
    case 2:
      return run_block<T, 2>(t, block, a, b);
    case 3:
      return run_block<T, 3>(t, block, a, b);
    case 4:
      return run_block<T, 4>(t, block, a, b);
    case 5:
      return run_block<T, 5>(t, block, a, b);
    default:
      return run_block<T, 6>(t, block, a, b);
  }
}

template <class T>
void run_reduction(const ProductTile& t, int64_t k, int64_t count, float* scratch, bool first, bool last) {
  const int64_t panel = (t.reduction + kPairs<T> - 1) / kPairs<T> * kPairs<T> * kPanelColumns;
  const T* a = static_cast<const T*>(t.a) + k;
  const T* b = reinterpret_cast<const T*>(t.packed) + k * kPanelColumns;
  for (int64_t row = 0; row < t.rows; row += kRowsMax) {
    for (int64_t column = 0; column < t.columns; column += kVectors * lanes()) {
      float* at = scratch == nullptr ? nullptr : scratch + row * kTileColumns + column;
      const T* columns = b + column / kPanelColumns * panel + column % kPanelColumns * kPairs<T>;
      run_rows<T>(std::min<int64_t>(kRowsMax, t.rows - row), t,
                  {count, first ? nullptr : at, last ? nullptr : at, row, column}, a + row * t.a_stride,
                  columns);
    }
  }
}

template <class T>
void product_tile(const ProductTile& t) {
  if (t.reduction <= kLongReduction) return run_reduction<T>(t, 0, t.reduction, nullptr, true, true);
  HWY_ALIGN float scratch[kLongTileRows * kTileColumns];
  for (int64_t k = 0; k < t.reduction; k += kReductionBlock) {
    const int64_t left = t.reduction - k;
    run_reduction<T>(t, k, std::min(left, kReductionBlock), scratch, k == 0, left <= kReductionBlock);
  }
}
void product_f32(const ProductTile& t) { product_tile<float>(t); }
void product_bf16(const ProductTile& t) { product_tile<Bf16>(t); }

template <class T>
void gradient_block(const GradientTile& t, int64_t k, int64_t count, int64_t row, int64_t column) {
  const int64_t n = lanes();
  F32Vec c[kGradientCallRows][kGradientVectors];
  for (auto& sums : c) {
    for (auto& sum : sums) sum = hn::Zero(F32Tag());
  }
  const T* a = static_cast<const T*>(t.a) + row / kGradientRows * kGradientRows * t.k_stride +
               k * kGradientRows + row % kGradientRows * kPairs<T>;
  const T* b = static_cast<const T*>(t.b) + column / kGradientColumns * kGradientColumns * t.k_stride +
               k * kGradientColumns + column % kGradientColumns * kPairs<T>;
  multiply<kGradientCallRows, kGradientVectors>(count, a, kPairs<T>, kGradientRows * kPairs<T>, b,
                                                kGradientColumns * kPairs<T>, c);
  for (int i = 0; i < kGradientCallRows && row + i < t.rows; ++i) {
    for (int j = 0; j < kGradientVectors && column + j * n < t.columns; ++j) {
      const int64_t valid = std::min(n, t.columns - column - j * n);
      float* at = t.c + (row + i) * t.c_stride + column + j * n;
      store_first(t.add || k > 0 ? hn::Add(c[i][j], load_first(at, valid)) : c[i][j], at, valid);
    }
  }
}

template <class T>
void gradient_tile(const GradientTile& t) {
  for (int64_t k = 0; k < t.reduction; k += kGradientBlock) {
    const int64_t count = std::min(kGradientBlock, t.reduction - k);
    for (int64_t row = 0; row < t.rows; row += kGradientCallRows) {
      for (int64_t column = 0; column < t.columns; column += kGradientVectors * lanes()) {
        gradient_block<T>(t, k, count, row, column);
      }
    }
  }
}
void gradient_f32(const GradientTile& t) { gradient_tile<float>(t); }
void gradient_bf16(const GradientTile& t) { gradient_tile<Bf16>(t); }

// `width` columns of x into each panel [k_stride/kPairs][width][kPairs], rows [begin, end).
template <class T, int64_t kWidth>
void pack_panels(const PanelPack& p, int64_t begin, int64_t end) {
  const int64_t stop = end == p.total ? p.k_stride : end;
  for (int64_t panel = 0; panel < p.columns; panel += kWidth) {
    const int64_t width = std::min(kWidth, p.columns - panel);
    T* out = static_cast<T*>(p.panels) + panel * p.k_stride;
    float sums[kWidth] = {};
    for (int64_t row = begin; row < stop; ++row) {
      T* HWY_RESTRICT to = out + row / kPairs<T> * kPairs<T> * kWidth + row % kPairs<T>;
      const T* HWY_RESTRICT from = static_cast<const T*>(p.x) + row * p.x_stride + panel;
      const int64_t valid = row < p.total ? width : 0;
      if (valid == kWidth) {  // a length known to the compiler
        for (int64_t i = 0; i < kWidth; ++i) to[i * kPairs<T>] = from[i];
        for (int64_t i = 0; i < kWidth; ++i) sums[i] += to_f32(from[i]);
        continue;
      }
      for (int64_t i = 0; i < valid; ++i) to[i * kPairs<T>] = from[i];
      for (int64_t i = valid; i < kWidth; ++i) to[i * kPairs<T>] = T{};
      for (int64_t i = 0; i < valid; ++i) sums[i] += to_f32(from[i]);
    }
    if (p.column_sums != nullptr) std::copy(sums, sums + width, p.column_sums + panel);
  }
}
void pack8_f32(const PanelPack& p, int64_t begin, int64_t end) {
  pack_panels<float, kGradientRows>(p, begin, end);
}
void pack48_f32(const PanelPack& p, int64_t begin, int64_t end) {
  pack_panels<float, kGradientColumns>(p, begin, end);
}
void pack8_bf16(const PanelPack& p, int64_t begin, int64_t end) {
  pack_panels<Bf16, kGradientRows>(p, begin, end);
}
void pack48_bf16(const PanelPack& p, int64_t begin, int64_t end) {
  pack_panels<Bf16, kGradientColumns>(p, begin, end);
}

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::backend::cpu {

HWY_EXPORT(product_f32);
HWY_EXPORT(product_bf16);
HWY_EXPORT(gradient_f32);
HWY_EXPORT(gradient_bf16);
HWY_EXPORT(pack8_f32);
HWY_EXPORT(pack8_bf16);
HWY_EXPORT(pack48_f32);
HWY_EXPORT(pack48_bf16);

namespace {
const ProductKernels kF32Products{[](const ProductTile& t) {
                                    HWY_DYNAMIC_DISPATCH(product_f32)
                                    (t);
                                  },
                                  [](const GradientTile& t) {
                                    HWY_DYNAMIC_DISPATCH(gradient_f32)
                                    (t);
                                  },
                                  [](const PanelPack& p, int64_t begin, int64_t end) {
                                    HWY_DYNAMIC_DISPATCH(pack8_f32)
                                    (p, begin, end);
                                  },
                                  [](const PanelPack& p, int64_t begin, int64_t end) {
                                    HWY_DYNAMIC_DISPATCH(pack48_f32)
                                    (p, begin, end);
                                  }};
const ProductKernels kBf16Products{[](const ProductTile& t) {
                                     HWY_DYNAMIC_DISPATCH(product_bf16)
                                     (t);
                                   },
                                   [](const GradientTile& t) {
                                     HWY_DYNAMIC_DISPATCH(gradient_bf16)
                                     (t);
                                   },
                                   [](const PanelPack& p, int64_t begin, int64_t end) {
                                     HWY_DYNAMIC_DISPATCH(pack8_bf16)
                                     (p, begin, end);
                                   },
                                   [](const PanelPack& p, int64_t begin, int64_t end) {
                                     HWY_DYNAMIC_DISPATCH(pack48_bf16)
                                     (p, begin, end);
                                   }};
}  // namespace

const ProductKernels& portable_products(bool bf16) { return bf16 ? kBf16Products : kF32Products; }

}  // namespace ingot::backend::cpu
#endif
