// Rows of logits: the statistics of their softmax, and the gradient of cross-entropy in place.

#include "backend/cpu/kernels/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/softmax_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/bf16-inl.h"
#include "backend/cpu/kernels/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

template <class T>
SoftmaxStatistics statistics_row(const T* x, int64_t n) {
  const F32Tag d;
  if (n == 0) return {std::numeric_limits<float>::lowest(), 0};
  const int64_t step = lanes();
  const int64_t pairs = n / (2 * step) * 2 * step;
  F32Vec top0 = hn::Set(d, -INFINITY), top1 = top0;
  for (int64_t i = 0; i < pairs; i += 2 * step) {
    top0 = hn::Max(top0, load(x + i));
    top1 = hn::Max(top1, load(x + i + step));
  }
  float highest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(top0, top1)));
  for (int64_t i = pairs; i < n; ++i) highest = std::max(highest, to_f32(x[i]));
  const F32Vec factor = hn::Set(d, kLog2E), shift = hn::Set(d, highest * kLog2E);
  F32Vec sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  for (int64_t i = 0; i < pairs; i += 2 * step) {
    sum0 = hn::Add(sum0, power_of_two(hn::MulSub(load(x + i), factor, shift)));
    sum1 = hn::Add(sum1, power_of_two(hn::MulSub(load(x + i + step), factor, shift)));
  }
  float sum = sum_of(hn::Add(sum0, sum1));
  for (int64_t i = pairs; i < n; ++i) sum += std::exp(to_f32(x[i]) - highest);
  return {highest, sum};
}

template <class T>
void gradient_row(T* x, int64_t n, float log_sum_exp, float factor, int64_t label) {
  const F32Tag d;
  const bool labelled = label >= 0 && label < n;
  const float at_label = labelled ? to_f32(x[label]) : 0.0F;
  const F32Vec log2e = hn::Set(d, kLog2E), shift = hn::Set(d, log_sum_exp * kLog2E),
               scale = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) {
    store(hn::Mul(power_of_two(hn::MulSub(load(x + i), log2e, shift)), scale), x + i);
  }
  for (; i < n; ++i) store_scalar(std::exp(to_f32(x[i]) - log_sum_exp) * factor, x + i);
  if (labelled) store_scalar((std::exp(at_label - log_sum_exp) - 1.0F) * factor, x + label);
}

SoftmaxStatistics statistics_f32(const void* x, int64_t n) {
  return statistics_row(static_cast<const float*>(x), n);
}
SoftmaxStatistics statistics_bf16(const void* x, int64_t n) {
  return statistics_row(static_cast<const Bf16*>(x), n);
}
void gradient_f32(void* x, int64_t n, float lse, float factor, int64_t label) {
  gradient_row(static_cast<float*>(x), n, lse, factor, label);
}
void gradient_bf16(void* x, int64_t n, float lse, float factor, int64_t label) {
  gradient_row(static_cast<Bf16*>(x), n, lse, factor, label);
}

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::backend::cpu {

HWY_EXPORT(statistics_f32);
HWY_EXPORT(statistics_bf16);
HWY_EXPORT(gradient_f32);
HWY_EXPORT(gradient_bf16);

SoftmaxStatistics softmax_statistics(tensor::DType dtype, const void* logits, int64_t n) {
  return dtype == tensor::DType::kBF16 ? HWY_DYNAMIC_DISPATCH(statistics_bf16)(logits, n)
                                       : HWY_DYNAMIC_DISPATCH(statistics_f32)(logits, n);
}

void cross_entropy_gradient(tensor::DType dtype, void* logits, int64_t n, float lse, float factor,
                            int64_t label) {
  if (dtype == tensor::DType::kBF16) {
    HWY_DYNAMIC_DISPATCH(gradient_bf16)(logits, n, lse, factor, label);
  } else {
    HWY_DYNAMIC_DISPATCH(gradient_f32)(logits, n, lse, factor, label);
  }
}

}  // namespace ingot::backend::cpu
#endif
