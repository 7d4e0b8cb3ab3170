// Exponentials for the Highway files of this folder; included once per target.

#if defined(INGOT_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef INGOT_EXP_INL_H
#undef INGOT_EXP_INL_H
#else
#define INGOT_EXP_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/kernels/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

// 2^t: minimax polynomial of degree 5 on [-1/2, 1/2], relative error 8e-8. 0 below -126; t above 127 is taken
// for 127.
HWY_INLINE F32Vec power_of_two(F32Vec t) {
  const F32Tag d;
  const hn::Rebind<int32_t, F32Tag> di;
  const F32Vec bounded = hn::Min(hn::Max(t, hn::Set(d, -126.0F)), hn::Set(d, 127.0F));
  const auto whole = hn::NearestInt(bounded);
  const F32Vec f = hn::Sub(bounded, hn::ConvertTo(d, whole));
  F32Vec r = hn::Set(d, 1.327647198e-3F);
  r = hn::MulAdd(r, f, hn::Set(d, 9.675541334e-3F));
  r = hn::MulAdd(r, f, hn::Set(d, 5.550713274e-2F));
  r = hn::MulAdd(r, f, hn::Set(d, 2.402211972e-1F));
  r = hn::MulAdd(r, f, hn::Set(d, 6.931469671e-1F));
  r = hn::MulAdd(r, f, hn::Set(d, 1.000000072F));
  const auto power = hn::ShiftLeft<23>(hn::Add(whole, hn::Set(di, 127)));
  return hn::IfThenElseZero(hn::Ge(t, hn::Set(d, -126.0F)), hn::Mul(r, hn::BitCast(d, power)));
}

constexpr float kLog2E = 1.44269504F;

// 1 / (1 + 2^t); t beyond ±126 gives 0 or 1.
HWY_INLINE F32Vec inverse_of_one_plus_power(F32Vec t) {
  const F32Vec one = hn::Set(F32Tag(), 1.0F);
  return hn::Div(one, hn::Add(one, power_of_two(t)));
}

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // INGOT_EXP_INL_H
