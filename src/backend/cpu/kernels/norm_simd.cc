#include "backend/cpu/kernels/norm_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/norm_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

// body(first column, columns <= lanes()) over a row.
template <class Body>
HWY_INLINE void for_columns(int64_t channels, const Body& body) {
  int64_t i = 0;
  for (; i + lanes() <= channels; i += lanes()) body(i, lanes());
  if (i < channels) body(i, channels - i);
}

struct Statistics {
  float mean, inverse;  // 1 / standard deviation, or 1 / root mean square
};

template <class X>
HWY_INLINE Statistics statistics_of(const X* x, const NormRows& n, float sum) {
  const float mean = n.rms ? 0.0F : sum / static_cast<float>(n.channels);
  const F32Vec m = hn::Set(F32Tag(), mean);
  F32Vec squares = hn::Zero(F32Tag());
  int64_t i = 0;
  for (; i + lanes() <= n.channels; i += lanes()) {
    const F32Vec v = hn::Sub(load(x + i), m);
    squares = hn::MulAdd(v, v, squares);
  }
  float total = sum_of(squares);
  for (; i < n.channels; ++i) total += (to_f32(x[i]) - mean) * (to_f32(x[i]) - mean);
  return {mean, 1.0F / std::sqrt(total / static_cast<float>(n.channels) + n.epsilon)};
}

template <class X>
HWY_INLINE float row_sum(const X* x, int64_t channels) {
  F32Vec sum = hn::Zero(F32Tag());
  for_columns(channels, [&](int64_t i, int64_t count) { sum = hn::Add(sum, load_first(x + i, count)); });
  return sum_of(sum);
}

template <class X, class Y>
void forward_rows(const NormRows& n, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const X* x = static_cast<const X*>(n.x) + row * n.channels;
    if (n.delta != nullptr) {
      const Y* delta = static_cast<const Y*>(n.delta) + row * n.channels;
      X* out = static_cast<X*>(n.x_out) + row * n.channels;
      for_columns(n.channels, [&](int64_t i, int64_t count) {
        store_first(hn::Add(load_first(x + i, count), load_first(delta + i, count)), out + i, count);
      });
      x = out;
    }
    const Statistics s = statistics_of(x, n, n.rms ? 0.0F : row_sum(x, n.channels));
    const F32Vec mean = hn::Set(F32Tag(), s.mean), inverse = hn::Set(F32Tag(), s.inverse);
    Y* y = static_cast<Y*>(n.y) + row * n.channels;
    for_columns(n.channels, [&](int64_t i, int64_t count) {
      const F32Vec h = hn::Mul(hn::Sub(load_first(x + i, count), mean), inverse);
      const F32Vec w = load_first(n.w + i, count);
      const F32Vec v = n.b == nullptr ? hn::Mul(h, w) : hn::MulAdd(h, w, load_first(n.b + i, count));
      store_first(v, y + i, count);
    });
  }
}

template <class X, class Y, class Z>
HWY_INLINE void input_gradient_row(const NormRows& n, const X* x, const Y* dy, int64_t row,
                                   const Statistics& s) {
  const F32Vec mean = hn::Set(F32Tag(), s.mean), inverse = hn::Set(F32Tag(), s.inverse);
  F32Vec sum = hn::Zero(F32Tag()), dot = hn::Zero(F32Tag());
  for_columns(n.channels, [&](int64_t i, int64_t count) {
    const F32Vec g = hn::Mul(load_first(dy + i, count), load_first(n.w + i, count));
    const F32Vec h = hn::Mul(hn::Sub(load_first(x + i, count), mean), inverse);
    sum = hn::Add(sum, g);
    dot = hn::MulAdd(g, h, dot);
  });
  const float channels = static_cast<float>(n.channels);
  const F32Vec mean_g = hn::Set(F32Tag(), n.rms ? 0.0F : sum_of(sum) / channels);
  const F32Vec mean_dot = hn::Set(F32Tag(), sum_of(dot) / channels);
  Z* dx = static_cast<Z*>(n.dx) + row * n.channels;
  const Z* residual = static_cast<const Z*>(n.residual_gradient) + row * n.channels;
  for_columns(n.channels, [&](int64_t i, int64_t count) {
    const F32Vec g = hn::Mul(load_first(dy + i, count), load_first(n.w + i, count));
    const F32Vec h = hn::Mul(hn::Sub(load_first(x + i, count), mean), inverse);
    F32Vec v = hn::Mul(hn::Sub(hn::Sub(g, mean_g), hn::Mul(h, mean_dot)), inverse);
    if (n.residual_gradient != nullptr) v = hn::Add(v, load_first(residual + i, count));
    store_first(v, dx + i, count);
  });
}

template <class X, class Y, class Z>
void backward_rows(const NormRows& n, int64_t begin, int64_t end) {
  if (n.dw != nullptr) std::fill(n.dw, n.dw + n.channels, 0.0F);
  if (n.db != nullptr) std::fill(n.db, n.db + n.channels, 0.0F);
  for (int64_t row = begin; row < end; ++row) {
    const X* x = static_cast<const X*>(n.x) + row * n.channels;
    const Y* dy = static_cast<const Y*>(n.dy) + row * n.channels;
    const Statistics s = statistics_of(x, n, n.rms ? 0.0F : row_sum(x, n.channels));
    if (n.dw != nullptr || n.db != nullptr) {
      const F32Vec mean = hn::Set(F32Tag(), s.mean), inverse = hn::Set(F32Tag(), s.inverse);
      for_columns(n.channels, [&](int64_t i, int64_t count) {
        const F32Vec d = load_first(dy + i, count);
        if (n.dw != nullptr) {
          const F32Vec h = hn::Mul(hn::Sub(load_first(x + i, count), mean), inverse);
          store_first(hn::MulAdd(d, h, load_first(n.dw + i, count)), n.dw + i, count);
        }
        if (n.db != nullptr) store_first(hn::Add(d, load_first(n.db + i, count)), n.db + i, count);
      });
    }
    if (n.dx != nullptr) input_gradient_row<X, Y, Z>(n, x, dy, row, s);
  }
}

void forward_all(const NormRows& n, int64_t begin, int64_t end) {
  switch (n.types & 3U) {
    case 0:
      return forward_rows<float, float>(n, begin, end);
    case 1:
      return forward_rows<Bf16, float>(n, begin, end);
    case 2:
      return forward_rows<float, Bf16>(n, begin, end);
    default:
      return forward_rows<Bf16, Bf16>(n, begin, end);
  }
}
void backward_all(const NormRows& n, int64_t begin, int64_t end) {
  switch (n.types & 7U) {
    case 0:
      return backward_rows<float, float, float>(n, begin, end);
    case 1:
      return backward_rows<Bf16, float, float>(n, begin, end);
    case 2:
      return backward_rows<float, Bf16, float>(n, begin, end);
    case 3:
      return backward_rows<Bf16, Bf16, float>(n, begin, end);
    case 4:
      return backward_rows<float, float, Bf16>(n, begin, end);
    case 5:
      return backward_rows<Bf16, float, Bf16>(n, begin, end);
    case 6:
      return backward_rows<float, Bf16, Bf16>(n, begin, end);
    default:
      return backward_rows<Bf16, Bf16, Bf16>(n, begin, end);
  }
}

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::backend::cpu {

HWY_EXPORT(forward_all);
HWY_EXPORT(backward_all);

void norm_forward_rows(const NormRows& n, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(forward_all)(n, begin, end);
}
void norm_backward_rows(const NormRows& n, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(backward_all)(n, begin, end);
}

}  // namespace ingot::backend::cpu
#endif
