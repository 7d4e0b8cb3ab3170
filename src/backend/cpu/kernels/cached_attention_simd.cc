#include "backend/cpu/kernels/cached_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/cached_attention_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/bf16-inl.h"
#include "backend/cpu/kernels/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

constexpr int64_t kMaxHeadSize = 128;

template <class T>
void cached_head(const CachedHead& h) {
  const F32Tag d;
  HWY_ALIGN float q[kMaxHeadSize + HWY_LANES(float)] = {};
  for (int64_t i = 0; i < h.head_size; ++i) q[i] = h.scale * kLog2E * to_f32(static_cast<const T*>(h.q)[i]);
  const int64_t n = h.end - h.begin;
  float highest = -std::numeric_limits<float>::infinity();
  for (int64_t s = 0; s < n; ++s) {
    const T* key = static_cast<const T*>(h.keys) + (h.begin + s) * h.stride;
    F32Vec sum = hn::Zero(d);
    for (int64_t i = 0; i < h.head_size; i += lanes()) {
      sum = hn::MulAdd(hn::LoadU(d, q + i), load_first(key + i, std::min(lanes(), h.head_size - i)), sum);
    }
    h.scores[s] = sum_of(sum);
    highest = std::max(highest, h.scores[s]);
  }
  F32Vec total = hn::Zero(d);
  for (int64_t s = 0; s < n; s += lanes()) {
    const int64_t count = std::min(lanes(), n - s);
    F32Vec p = power_of_two(hn::Sub(load_first(h.scores + s, count), hn::Set(d, highest)));
    if (count < lanes()) p = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), p);
    total = hn::Add(total, p);
    store_first(p, h.scores + s, count);
  }
  const F32Vec inverse = hn::Set(d, n == 0 ? 0.0F : 1.0F / sum_of(total));
  HWY_ALIGN float out[kMaxHeadSize + HWY_LANES(float)] = {};
  for (int64_t s = 0; s < n; ++s) {
    const T* value = static_cast<const T*>(h.values) + (h.begin + s) * h.stride;
    const F32Vec p = hn::Set(d, h.scores[s]);
    for (int64_t i = 0; i < h.head_size; i += lanes()) {
      const F32Vec v = load_first(value + i, std::min(lanes(), h.head_size - i));
      hn::StoreU(hn::MulAdd(p, v, hn::LoadU(d, out + i)), d, out + i);
    }
  }
  for (int64_t i = 0; i < h.head_size; i += lanes()) {
    store_first(hn::Mul(hn::LoadU(d, out + i), inverse), static_cast<T*>(h.o) + i,
                std::min(lanes(), h.head_size - i));
  }
}
void cached_head_f32(const CachedHead& h) { cached_head<float>(h); }
void cached_head_bf16(const CachedHead& h) { cached_head<Bf16>(h); }

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::backend::cpu {

HWY_EXPORT(cached_head_f32);
HWY_EXPORT(cached_head_bf16);

void run_cached_head(bool bf16, const CachedHead& head) {
  if (bf16) {
    HWY_DYNAMIC_DISPATCH(cached_head_bf16)(head);
  } else {
    HWY_DYNAMIC_DISPATCH(cached_head_f32)(head);
  }
}

}  // namespace ingot::backend::cpu
#endif
