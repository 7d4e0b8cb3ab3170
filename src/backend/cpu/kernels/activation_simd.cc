#include "backend/cpu/kernels/activation_spans.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/activation_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/kernels/bf16-inl.h"
#include "backend/cpu/kernels/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

HWY_INLINE F32Vec constant(float value) { return hn::Set(F32Tag(), value); }

constexpr float kGeluScale = 2 * 0.797884561F;  // 2 √(2/π): tanh z = 2 σ(2z) − 1
constexpr float kGeluCubic = 0.044715F;

// σ(z) of −z · log2 e
HWY_INLINE F32Vec sigmoid_of_negated_log2(F32Vec t) { return inverse_of_one_plus_power(t); }

struct GeluTanh {
  static HWY_INLINE F32Vec sigmoid(F32Vec x, F32Vec x2) {
    const F32Vec inner =
        hn::MulAdd(x2, constant(-kGeluCubic * kGeluScale * kLog2E), constant(-kGeluScale * kLog2E));
    return sigmoid_of_negated_log2(hn::Mul(x, inner));
  }
  static HWY_INLINE F32Vec value(F32Vec x) { return hn::Mul(x, sigmoid(x, hn::Mul(x, x))); }
  static HWY_INLINE F32Vec derivative(F32Vec x) {
    const F32Vec x2 = hn::Mul(x, x);
    const F32Vec s = sigmoid(x, x2);
    const F32Vec slope = hn::MulAdd(x2, constant(3 * kGeluCubic * kGeluScale), constant(kGeluScale));
    return hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Sub(constant(1), s)), slope, s);
  }
};

struct GeluErf {
  // Φ(x) by Abramowitz and Stegun 7.1.26 (absolute error 1.5e-7), and exp(−x²/2).
  static HWY_INLINE F32Vec normal(F32Vec x, F32Vec& density) {
    const F32Vec a = hn::Mul(hn::Abs(x), constant(0.707106781F));
    density = power_of_two(hn::Mul(hn::Mul(x, x), constant(-0.5F * kLog2E)));
    const F32Vec t = hn::Div(constant(1), hn::MulAdd(a, constant(0.3275911F), constant(1)));
    F32Vec r = constant(1.061405429F);
    r = hn::MulAdd(r, t, constant(-1.453152027F));
    r = hn::MulAdd(r, t, constant(1.421413741F));
    r = hn::MulAdd(r, t, constant(-0.284496736F));
    r = hn::MulAdd(r, t, constant(0.254829592F));
    const F32Vec tail = hn::Mul(hn::Mul(hn::Mul(r, t), density), constant(0.5F));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(F32Tag())), tail, hn::Sub(constant(1), tail));
  }
  static HWY_INLINE F32Vec value(F32Vec x) {
    F32Vec density;
    return hn::Mul(x, normal(x, density));
  }
  static HWY_INLINE F32Vec derivative(F32Vec x) {
    F32Vec density;
    const F32Vec phi = normal(x, density);
    return hn::MulAdd(hn::Mul(x, density), constant(0.398942280F), phi);
  }
};

struct Silu {
  static HWY_INLINE F32Vec sigmoid(F32Vec x) {
    return sigmoid_of_negated_log2(hn::Mul(x, constant(-kLog2E)));
  }
  static HWY_INLINE F32Vec value(F32Vec x) { return hn::Mul(x, sigmoid(x)); }
  static HWY_INLINE F32Vec derivative(F32Vec x) {
    const F32Vec s = sigmoid(x);
    return hn::MulAdd(hn::Mul(x, s), hn::Sub(constant(1), s), s);
  }
};

// body(i, count <= lanes()) over [begin, end)
template <class Body>
HWY_INLINE void for_span(int64_t begin, int64_t end, const Body& body) {
  int64_t i = begin;
  for (; i + lanes() <= end; i += lanes()) body(i, lanes());
  if (i < end) body(i, end - i);
}

template <class F, class T>
void forward_span(const T* x, T* y, int64_t begin, int64_t end) {
  for_span(begin, end, [&](int64_t i, int64_t n) { store_first(F::value(load_first(x + i, n)), y + i, n); });
}
template <class F, class T>
void backward_span(const T* x, const T* dy, T* dx, int64_t begin, int64_t end) {
  for_span(begin, end, [&](int64_t i, int64_t n) {
    store_first(hn::Mul(load_first(dy + i, n), F::derivative(load_first(x + i, n))), dx + i, n);
  });
}

template <class T>
void activation(Activation kind, const ActivationSpan& s, int64_t begin, int64_t end) {
  const T* x = static_cast<const T*>(s.x);
  const T* dy = static_cast<const T*>(s.dy);
  T* out = static_cast<T*>(s.out);
  if (dy == nullptr) {
    switch (kind) {
      case Activation::kGeluTanh:
        return forward_span<GeluTanh>(x, out, begin, end);
      case Activation::kGeluErf:
        return forward_span<GeluErf>(x, out, begin, end);
      case Activation::kSilu:
        return forward_span<Silu>(x, out, begin, end);
    }
  }
  switch (kind) {
    case Activation::kGeluTanh:
      return backward_span<GeluTanh>(x, dy, out, begin, end);
    case Activation::kGeluErf:
      return backward_span<GeluErf>(x, dy, out, begin, end);
    case Activation::kSilu:
      return backward_span<Silu>(x, dy, out, begin, end);
  }
}

template <class T>
void swiglu(const SwigluSpan& s, int64_t begin, int64_t end) {
  const T *gate = static_cast<const T*>(s.gate), *up = static_cast<const T*>(s.up),
          *dy = static_cast<const T*>(s.dy);
  T *y = static_cast<T*>(s.y), *dgate = static_cast<T*>(s.dgate), *dup = static_cast<T*>(s.dup);
  for_span(begin, end, [&](int64_t i, int64_t n) {
    const F32Vec g = load_first(gate + i, n), u = load_first(up + i, n);
    if (dy == nullptr) {
      store_first(hn::Mul(Silu::value(g), u), y + i, n);
      return;
    }
    const F32Vec d = load_first(dy + i, n);
    if (dgate != nullptr) store_first(hn::Mul(hn::Mul(d, u), Silu::derivative(g)), dgate + i, n);
    if (dup != nullptr) store_first(hn::Mul(d, Silu::value(g)), dup + i, n);
  });
}

void activation_f32(Activation k, const ActivationSpan& s, int64_t b, int64_t e) {
  activation<float>(k, s, b, e);
}
void activation_bf16(Activation k, const ActivationSpan& s, int64_t b, int64_t e) {
  activation<Bf16>(k, s, b, e);
}
void swiglu_f32(const SwigluSpan& s, int64_t begin, int64_t end) { swiglu<float>(s, begin, end); }
void swiglu_bf16(const SwigluSpan& s, int64_t begin, int64_t end) { swiglu<Bf16>(s, begin, end); }

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::backend::cpu {

HWY_EXPORT(activation_f32);
HWY_EXPORT(activation_bf16);
HWY_EXPORT(swiglu_f32);
HWY_EXPORT(swiglu_bf16);

void run_activation_span(bool bf16, Activation kind, const ActivationSpan& s, int64_t begin, int64_t end) {
  if (bf16) {
    HWY_DYNAMIC_DISPATCH(activation_bf16)(kind, s, begin, end);
  } else {
    HWY_DYNAMIC_DISPATCH(activation_f32)(kind, s, begin, end);
  }
}

void run_swiglu_span(bool bf16, const SwigluSpan& s, int64_t begin, int64_t end) {
  if (bf16) {
    HWY_DYNAMIC_DISPATCH(swiglu_bf16)(s, begin, end);
  } else {
    HWY_DYNAMIC_DISPATCH(swiglu_f32)(s, begin, end);
  }
}

}  // namespace ingot::backend::cpu
#endif
