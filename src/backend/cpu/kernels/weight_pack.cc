// Packing of weights into panel64 (linear.h): a conversion and a transposition of pairs.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/weight_pack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/bf16-inl.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/products.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

constexpr int64_t kChunk = 32;  // of the reduction, at a time: a row's part is one cache line of bf16

template <class To>
constexpr int64_t kPairs = sizeof(To) == 2 ? 2 : 1;

template <class From, class To>
HWY_INLINE void convert_row(const From* from, int64_t count, To* to) {
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) store(load(from + i), to + i);
  for (; i < count; ++i) store_scalar(to_f32(from[i]), to + i);
}

// Panel whose columns are rows of w (forward): out[k / kPairs][64][kPairs] = w[first + column][k].
template <class From, class To>
void pack_rows(const From* w, int64_t rows, int64_t reduction, int64_t first, To* out) {
  HWY_ALIGN To block[kPanelColumns * kChunk];
  const int64_t valid = std::min(kPanelColumns, rows - first);
  for (int64_t k = 0; k < reduction; k += kChunk) {
    const int64_t count = std::min(kChunk, reduction - k);
    const int64_t padded = (count + kPairs<To> - 1) / kPairs<To> * kPairs<To>;
    if (valid < kPanelColumns || padded != count) std::fill(block, block + kPanelColumns * kChunk, To{});
    for (int64_t r = 0; r < valid; ++r) {
      convert_row(w + (first + r) * reduction + k, count, block + r * kChunk);
    }
    // A pair of bf16 and an f32 are both 32 bits: the transposition is one of words.
    for (int64_t p = 0; p < padded; p += kPairs<To>) {
      To* to = out + (k + p) * kPanelColumns;
      for (int64_t r = 0; r < kPanelColumns; ++r) {
        std::memcpy(to + r * kPairs<To>, block + r * kChunk + p, sizeof(uint32_t));
      }
    }
  }
}

// Panel whose columns are columns of w (backward): out[k / kPairs][64][kPairs] = w[k][first + column].
template <class From>
void pack_columns(const From* w, int64_t reduction, int64_t columns, int64_t first, float* out) {
  const int64_t valid = std::min(kPanelColumns, columns - first);
  for (int64_t k = 0; k < reduction; ++k) {
    convert_row(w + k * columns + first, valid, out + k * kPanelColumns);
    std::fill(out + k * kPanelColumns + valid, out + (k + 1) * kPanelColumns, 0.0F);
  }
}
template <class From>
void pack_columns(const From* w, int64_t reduction, int64_t columns, int64_t first, Bf16* out) {
  const hn::Rebind<uint32_t, F32Tag> du;
  const int64_t valid = std::min(kPanelColumns, columns - first);
  for (int64_t k = 0; k < reduction; k += 2) {
    auto* to = reinterpret_cast<uint32_t*>(out + k * kPanelColumns);
    for (int64_t c = 0; c < kPanelColumns; c += lanes()) {
      const int64_t count = std::min(lanes(), valid - c);
      if (count <= 0) {
        hn::StoreU(hn::Zero(du), du, to + c);
        continue;
      }
      const From* row = w + k * columns + first + c;
      const auto low = hn::ShiftRight<16>(rounded_bits(load_first(row, count)));
      const F32Vec next = k + 1 < reduction ? load_first(row + columns, count) : hn::Zero(F32Tag());
      const auto high = hn::And(rounded_bits(next), hn::Set(du, 0xffff0000U));
      hn::StoreU(hn::Or(low, high), du, to + c);
    }
  }
}

template <class From, class To>
void pack_panel(const void* w, WeightUse use, int64_t out_features, int64_t in_features, int64_t first,
                void* out) {
  const auto* from = static_cast<const From*>(w);
  if (use == WeightUse::kForward) {
    pack_rows(from, out_features, in_features, first, static_cast<To*>(out));
  } else {
    pack_columns(from, out_features, in_features, first, static_cast<To*>(out));
  }
}
void pack_f32_f32(const void* w, WeightUse use, int64_t o, int64_t i, int64_t first, void* out) {
  pack_panel<float, float>(w, use, o, i, first, out);
}
void pack_f32_bf16(const void* w, WeightUse use, int64_t o, int64_t i, int64_t first, void* out) {
  pack_panel<float, Bf16>(w, use, o, i, first, out);
}
void pack_bf16_f32(const void* w, WeightUse use, int64_t o, int64_t i, int64_t first, void* out) {
  pack_panel<Bf16, float>(w, use, o, i, first, out);
}
void pack_bf16_bf16(const void* w, WeightUse use, int64_t o, int64_t i, int64_t first, void* out) {
  pack_panel<Bf16, Bf16>(w, use, o, i, first, out);
}

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::backend::cpu {

HWY_EXPORT(pack_f32_f32);
HWY_EXPORT(pack_f32_bf16);
HWY_EXPORT(pack_bf16_f32);
HWY_EXPORT(pack_bf16_bf16);

namespace {

struct PanelShape {
  int64_t columns, reduction, panel_bytes;
};
PanelShape panel_shape(tensor::DType dtype, WeightUse use, int64_t out_features, int64_t in_features) {
  const bool forward = use == WeightUse::kForward;
  const int64_t reduction = forward ? in_features : out_features;
  const int64_t padded = dtype == tensor::DType::kBF16 ? (reduction + 1) / 2 * 2 : reduction;
  return {forward ? out_features : in_features, reduction, padded * kPanelColumns * tensor::size_of(dtype)};
}

}  // namespace

int64_t packed_weight_bytes(tensor::DType dtype, WeightUse use, int64_t out_features, int64_t in_features) {
  const PanelShape shape = panel_shape(dtype, use, out_features, in_features);
  return (shape.columns + kPanelColumns - 1) / kPanelColumns * shape.panel_bytes;
}

void pack_weight(const Cpu& cpu, const PackWeightArgs& args) {
  const int64_t o = args.w.shape.rows(), i = args.w.shape.last();
  const bool from_bf16 = args.w.dtype == tensor::DType::kBF16, to_bf16 = args.dtype == tensor::DType::kBF16;
  const auto pack =
      from_bf16 ? (to_bf16 ? HWY_DYNAMIC_DISPATCH(pack_bf16_bf16) : HWY_DYNAMIC_DISPATCH(pack_bf16_f32))
                : (to_bf16 ? HWY_DYNAMIC_DISPATCH(pack_f32_bf16) : HWY_DYNAMIC_DISPATCH(pack_f32_f32));
  for (const WeightUse use : {WeightUse::kForward, WeightUse::kBackward}) {
    const auto out = use == WeightUse::kForward ? args.forward : args.backward;
    if (out.empty()) continue;
    const PanelShape shape = panel_shape(args.dtype, use, o, i);
    const int64_t panels = (shape.columns + kPanelColumns - 1) / kPanelColumns;
    INGOT_CHECK(static_cast<int64_t>(out.size()) >= panels * shape.panel_bytes,
                "{} packed bytes given, {} needed", out.size(), panels * shape.panel_bytes);
    cpu.pool.parallel_for(panels, [&](int64_t panel, int) {
      pack(args.w.data, use, o, i, panel * kPanelColumns, out.data() + panel * shape.panel_bytes);
    });
  }
}

}  // namespace ingot::backend::cpu
#endif
