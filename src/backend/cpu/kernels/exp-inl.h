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

// 2^t for t in [-126, 127]: minimax polynomial of degree 5 on [-1/2, 1/2], relative error 8e-8.
HWY_INLINE F32Vec bounded_power_of_two(F32Vec t) {
  const F32Tag d;
  const hn::Rebind<int32_t, F32Tag> di;
  const auto whole = hn::NearestInt(t);
  const F32Vec f = hn::Sub(t, hn::ConvertTo(d, whole));
  F32Vec r = hn::Set(d, 1.327647198e-3F);
  r = hn::MulAdd(r, f, hn::Set(d, 9.675541334e-3F));
  r = hn::MulAdd(r, f, hn::Set(d, 5.550713274e-2F));
  r = hn::MulAdd(r, f, hn::Set(d, 2.402211972e-1F));
  r = hn::MulAdd(r, f, hn::Set(d, 6.931469671e-1F));
  r = hn::MulAdd(r, f, hn::Set(d, 1.000000072F));
  // A product, not a sum of exponents: a NaN keeps whatever integer its conversion gives.
  const auto power = hn::ShiftLeft<23>(hn::Add(whole, hn::Set(di, 127)));
  return hn::Mul(r, hn::BitCast(d, power));
}

// [-126, 126]; NaN stays: x86 takes the second operand of a minimum or maximum when one is NaN.
HWY_INLINE F32Vec bounded_exponent(F32Vec t) {
  const F32Tag d;
  return hn::Min(hn::Set(d, 126.0F), hn::Max(hn::Set(d, -126.0F), t));
}

// 2^t for any t: 0 below -126, NaN for NaN; t above 126 is taken for 126.
HWY_INLINE F32Vec power_of_two(F32Vec t) {
  const F32Vec power = bounded_power_of_two(bounded_exponent(t));
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(F32Tag(), -126.0F)), power);
}

constexpr float kLog2E = 1.44269504F;

// 1 / (1 + 2^t): by the machine's estimate of a reciprocal and Newton steps, relative error 3e-7.
HWY_INLINE F32Vec inverse_of_one_plus_power(F32Vec t) {
  const F32Tag d;
  const F32Vec sum = hn::Add(hn::Set(d, 1.0F), bounded_power_of_two(bounded_exponent(t)));
  F32Vec r = hn::ApproximateReciprocal(sum);
  r = hn::Mul(r, hn::NegMulAdd(sum, r, hn::Set(d, 2.0F)));
  // AVX-512 estimates 14 bits, others as few as 8.
  if constexpr (HWY_TARGET > HWY_AVX3) r = hn::Mul(r, hn::NegMulAdd(sum, r, hn::Set(d, 2.0F)));
  return r;
}

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // INGOT_EXP_INL_H
