// Vectors of f32 from and to f32 or bfloat16 memory, for the Highway files of this folder; included once per
// target. Rounds to nearest even and keeps NaN, as bf16.h does: Highway's own conversion truncates.

#if defined(INGOT_BF16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_BF16_INL_H
#undef INGOT_BF16_INL_H
#else
#define INGOT_BF16_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/kernels/bf16.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32Tag = hn::ScalableTag<float>;
using F32Vec = hn::Vec<F32Tag>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(F32Tag())); }

HWY_INLINE F32Vec load(const float* p) { return hn::LoadU(F32Tag(), p); }
HWY_INLINE F32Vec load(const Bf16* p) {
  const hn::Rebind<uint16_t, F32Tag> narrow;
  const hn::Rebind<uint32_t, F32Tag> wide;
  const auto bits = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(F32Tag(), hn::ShiftLeft<16>(bits));
}

// The rounded bits in the upper half of each lane.
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, F32Tag>> rounded_bits(F32Vec v) {
  const hn::Rebind<uint32_t, F32Tag> wide;
  const hn::Rebind<int32_t, F32Tag> wide_signed;
  const auto bits = hn::BitCast(wide, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fff)));
  const auto magnitude = hn::BitCast(wide_signed, hn::And(bits, hn::Set(wide, 0x7fffffff)));
  const auto nan = hn::RebindMask(wide, hn::Gt(magnitude, hn::Set(wide_signed, 0x7f800000)));
  return hn::IfThenElse(nan, hn::Or(bits, hn::Set(wide, 0x400000)), rounded);
}

HWY_INLINE void store(F32Vec v, float* p) { hn::StoreU(v, F32Tag(), p); }
HWY_INLINE void store(F32Vec v, Bf16* p) {
  const hn::Rebind<int32_t, F32Tag> wide_signed;
  const hn::Rebind<uint16_t, F32Tag> narrow;
  const auto bits = hn::BitCast(wide_signed, hn::ShiftRight<16>(rounded_bits(v)));
  hn::StoreU(hn::DemoteTo(narrow, bits), narrow, reinterpret_cast<uint16_t*>(p));
}

HWY_INLINE void store_scalar(float v, float* p) { *p = v; }
HWY_INLINE void store_scalar(float v, Bf16* p) { *p = to_bf16(v); }

// The first n lanes, 0 < n <= lanes(); others read as zero and are not written.
template <class T>
HWY_INLINE F32Vec load_first(const T* p, int64_t n) {
  if (n >= lanes()) return load(p);
  HWY_ALIGN float buffer[HWY_LANES(float)] = {};
  for (int64_t i = 0; i < n; ++i) buffer[i] = to_f32(p[i]);
  return hn::Load(F32Tag(), buffer);
}
template <class T>
HWY_INLINE void store_first(F32Vec v, T* p, int64_t n) {
  if (n >= lanes()) return store(v, p);
  HWY_ALIGN float buffer[HWY_LANES(float)];
  hn::Store(v, F32Tag(), buffer);
  for (int64_t i = 0; i < n; ++i) store_scalar(buffer[i], p + i);
}

HWY_INLINE float sum_of(F32Vec v) { return hn::GetLane(hn::SumOfLanes(F32Tag(), v)); }

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // INGOT_BF16_INL_H
