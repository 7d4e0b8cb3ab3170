#include "backend/cpu/kernels/span_operations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/span_operations_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/kernels/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

template <class Body>
HWY_INLINE void for_span(int64_t begin, int64_t end, const Body& body) {
  int64_t i = begin;
  for (; i + lanes() <= end; i += lanes()) body(i, lanes());
  if (i < end) body(i, end - i);
}

template <class A, class B>
void add_typed(const AddSpan& s, int64_t begin, int64_t end) {
  const A* a = static_cast<const A*>(s.a);
  const B* b = static_cast<const B*>(s.b);
  A* out = static_cast<A*>(s.out);
  const F32Vec factor = hn::Set(F32Tag(), s.factor);
  for_span(begin, end, [&](int64_t i, int64_t n) {
    store_first(hn::Add(load_first(a + i, n), hn::Mul(factor, load_first(b + i, n))), out + i, n);
  });
}
void add_span(const AddSpan& s, int64_t begin, int64_t end) {
  switch (s.types & 3U) {
    case 0:
      return add_typed<float, float>(s, begin, end);
    case 1:
      return add_typed<Bf16, float>(s, begin, end);
    case 2:
      return add_typed<float, Bf16>(s, begin, end);
    default:
      return add_typed<Bf16, Bf16>(s, begin, end);
  }
}

template <class From, class To>
void cast_typed(const CastSpan& s, int64_t begin, int64_t end) {
  const From* from = static_cast<const From*>(s.from);
  To* to = static_cast<To*>(s.to);
  if (s.factor == 1.0F) {  // bits as they are: a product would flush the least numbers and change a NaN
    return for_span(begin, end,
                    [&](int64_t i, int64_t n) { store_first(load_first(from + i, n), to + i, n); });
  }
  const F32Vec factor = hn::Set(F32Tag(), s.factor);
  for_span(begin, end,
           [&](int64_t i, int64_t n) { store_first(hn::Mul(factor, load_first(from + i, n)), to + i, n); });
}
void cast_span(const CastSpan& s, int64_t begin, int64_t end) {
  switch (s.types & 3U) {
    case 0:
      return cast_typed<float, float>(s, begin, end);
    case 1:
      return cast_typed<Bf16, float>(s, begin, end);
    case 2:
      return cast_typed<float, Bf16>(s, begin, end);
    default:
      return cast_typed<Bf16, Bf16>(s, begin, end);
  }
}

template <class A, class B, class Out>
void blend_typed(const BlendRow& r, int64_t n) {
  const A* a = static_cast<const A*>(r.a);
  const B* b = static_cast<const B*>(r.b);
  Out* out = static_cast<Out*>(r.out);
  const F32Vec a_weight = hn::Set(F32Tag(), r.a_weight), b_weight = hn::Set(F32Tag(), r.b_weight);
  for_span(0, n, [&](int64_t i, int64_t count) {
    store_first(
        hn::Add(hn::Mul(a_weight, load_first(a + i, count)), hn::Mul(b_weight, load_first(b + i, count))),
        out + i, count);
  });
}
template <class A, class B>
void blend_into(const BlendRow& r, int64_t n) {
  return (r.types & 4U) != 0 ? blend_typed<A, B, Bf16>(r, n) : blend_typed<A, B, float>(r, n);
}
void blend_row(const BlendRow& r, int64_t n) {
  switch (r.types & 3U) {
    case 0:
      return blend_into<float, float>(r, n);
    case 1:
      return blend_into<Bf16, float>(r, n);
    case 2:
      return blend_into<float, Bf16>(r, n);
    default:
      return blend_into<Bf16, Bf16>(r, n);
  }
}

template <class T>
double sum_squares_typed(const T* x, int64_t begin, int64_t end) {
#if HWY_HAVE_FLOAT64
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  const auto step = static_cast<int64_t>(hn::Lanes(dd));
  auto even = hn::Zero(dd), odd = hn::Zero(dd);
  HWY_ALIGN float buffer[2 * HWY_LANES(float)] = {};
  int64_t i = begin;
  for (; i + 2 * step <= end; i += 2 * step) {
    const float* from = buffer;
    if constexpr (sizeof(T) == 2) {
      store(load(x + i), buffer);
    } else {
      from = x + i;
    }
    const auto a = hn::PromoteTo(dd, hn::LoadU(half, from)),
               b = hn::PromoteTo(dd, hn::LoadU(half, from + step));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(dd, hn::Add(even, odd)));
#else
  int64_t i = begin;
  double sum = 0;
#endif
  for (; i < end; ++i) sum += static_cast<double>(to_f32(x[i])) * static_cast<double>(to_f32(x[i]));
  return sum;
}
double sum_squares_all(bool bf16, const void* x, int64_t begin, int64_t end) {
  return bf16 ? sum_squares_typed(static_cast<const Bf16*>(x), begin, end)
              : sum_squares_typed(static_cast<const float*>(x), begin, end);
}

void adamw_span(const AdamwArgs& a, int64_t begin, int64_t end) {
  const auto set = [](float value) { return hn::Set(F32Tag(), value); };
  float *param = a.param.as<float>(), *m = a.m.as<float>(), *v = a.v.as<float>();
  const float* grad = a.grad.as<const float>();
  const F32Vec scale = set(a.grad_scale), beta1 = set(a.beta1), beta2 = set(a.beta2);
  const F32Vec rest1 = set(1 - a.beta1), rest2 = set(1 - a.beta2), epsilon = set(a.epsilon);
  const F32Vec step = set(a.learning_rate / a.bias_correction1), inverse2 = set(1 / a.bias_correction2);
  const F32Vec keep = set(1 - a.learning_rate * a.weight_decay);
  for_span(begin, end, [&](int64_t i, int64_t n) {
    const F32Vec g = hn::Mul(scale, load_first(grad + i, n));
    const F32Vec m_new = hn::MulAdd(beta1, load_first(m + i, n), hn::Mul(rest1, g));
    const F32Vec v_new = hn::MulAdd(beta2, load_first(v + i, n), hn::Mul(rest2, hn::Mul(g, g)));
    const F32Vec root = hn::Add(hn::Sqrt(hn::Mul(v_new, inverse2)), epsilon);
    const F32Vec p = hn::Sub(hn::Mul(keep, load_first(param + i, n)), hn::Div(hn::Mul(step, m_new), root));
    store_first(m_new, m + i, n);
    store_first(v_new, v + i, n);
    store_first(p, param + i, n);
  });
}

using Bits = hn::ScalableTag<uint32_t>;
using BitsVec = hn::Vec<Bits>;

// Low and high words of c · k.
HWY_INLINE void multiply_words(BitsVec c, uint32_t k, BitsVec& low, BitsVec& high) {
#if HWY_TARGET == HWY_SCALAR
  const uint64_t product = uint64_t{hn::GetLane(c)} * k;
  low = hn::Set(Bits(), static_cast<uint32_t>(product));
  high = hn::Set(Bits(), static_cast<uint32_t>(product >> 32));
#else
  const Bits d;
  const hn::Repartition<uint64_t, Bits> wide;
  const BitsVec factor = hn::Set(d, k);
  const auto even = hn::MulEven(c, factor);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, c))), factor);
  low = hn::Mul(c, factor);
  high = hn::BitCast(d, hn::Or(hn::ShiftRight<32>(even), hn::And(odd, hn::Set(wide, 0xffffffff00000000U))));
#endif
}

// Philox4x32-10 of base/random.h for one counter a lane; uniforms of blocks `block`, `block` + 1, … in order.
HWY_INLINE void uniforms(PhiloxKey key, uint64_t block, uint64_t sample, float* out) {
  const Bits d;
  HWY_ALIGN uint32_t low[HWY_LANES(uint32_t)];
  HWY_ALIGN uint32_t high[HWY_LANES(uint32_t)];
  for (uint64_t i = 0; i < static_cast<uint64_t>(lanes()); ++i) {
    low[i] = static_cast<uint32_t>(block + i);
    high[i] = static_cast<uint32_t>((block + i) >> 32);
  }
  BitsVec c0 = hn::Load(d, low), c1 = hn::Load(d, high);
  BitsVec c2 = hn::Set(d, static_cast<uint32_t>(sample)),
          c3 = hn::Set(d, static_cast<uint32_t>(sample >> 32));
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    BitsVec low0, high0, low1, high1;
    multiply_words(c0, 0xD2511F53, low0, high0);
    multiply_words(c2, 0xCD9E8D57, low1, high1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c3 = low0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  const auto unit = [](BitsVec bits) {
    const hn::Rebind<int32_t, F32Tag> di;
    const F32Vec whole = hn::ConvertTo(F32Tag(), hn::BitCast(di, hn::ShiftRight<8>(bits)));
    return hn::Mul(whole, hn::Set(F32Tag(), 0x1p-24F));
  };
  hn::StoreInterleaved4(unit(c0), unit(c1), unit(c2), unit(c3), F32Tag(), out);
}

template <class T>
void dropout_typed(const DropoutArgs& a, int64_t row, uint64_t first, uint64_t sample) {
  const int64_t channels = a.x.shape.last(), count = 4 * lanes();
  const T* x = a.x.as<const T>() + row * channels;
  T* y = a.y.as<T>() + row * channels;
  const F32Vec rate = hn::Set(F32Tag(), a.rate), scale = hn::Set(F32Tag(), 1 / (1 - a.rate));
  HWY_ALIGN float drawn[4 * HWY_LANES(float)];
  for (int64_t begin = -static_cast<int64_t>(first % 4); begin < channels; begin += count) {
    uniforms(a.key, static_cast<uint64_t>(static_cast<int64_t>(first) + begin) / 4, sample, drawn);
    for (int64_t i = 0; i < count; i += lanes()) {
      const int64_t c = begin + i;
      const int64_t skip = c < 0 ? -c : 0;  // only in the first vector of a row that starts inside a block
      const int64_t n = std::min(lanes() - skip, channels - c - skip);
      if (n <= 0) continue;
      const F32Vec u = load_first(drawn + i + skip, n);
      const F32Vec v = hn::Mul(load_first(x + c + skip, n), scale);
      store_first(hn::IfThenElseZero(hn::Ge(u, rate), v), y + c + skip, n);
    }
  }
}
void dropout_row(const DropoutArgs& a, int64_t row, uint64_t first, uint64_t sample) {
  if (a.x.dtype == tensor::DType::kBF16) {
    dropout_typed<Bf16>(a, row, first, sample);
  } else {
    dropout_typed<float>(a, row, first, sample);
  }
}

// sin and cos by reduction to [-π/4, π/4] in three parts and the polynomials of Cephes; |angle| below some
// 10⁵.
HWY_INLINE void sine_cosine(F32Vec angle, F32Vec& sine, F32Vec& cosine) {
  const F32Tag d;
  const hn::Rebind<int32_t, F32Tag> di;
  const auto quarter = hn::NearestInt(hn::Mul(angle, hn::Set(d, 0.636619772F)));
  const F32Vec n = hn::ConvertTo(d, quarter);
  F32Vec r = hn::NegMulAdd(n, hn::Set(d, 1.5703125F), angle);
  r = hn::NegMulAdd(n, hn::Set(d, 4.83751296997e-4F), r);
  r = hn::NegMulAdd(n, hn::Set(d, 7.54978995e-8F), r);
  const F32Vec r2 = hn::Mul(r, r);
  F32Vec s = hn::MulAdd(r2, hn::Set(d, -1.9515295891e-4F), hn::Set(d, 8.3321608736e-3F));
  s = hn::MulAdd(r2, s, hn::Set(d, -1.6666654611e-1F));
  s = hn::MulAdd(hn::Mul(r, r2), s, r);
  F32Vec c = hn::MulAdd(r2, hn::Set(d, 2.443315711809948e-5F), hn::Set(d, -1.388731625493765e-3F));
  c = hn::MulAdd(r2, c, hn::Set(d, 4.166664568298827e-2F));
  c = hn::MulAdd(hn::Mul(r2, r2), c, hn::NegMulAdd(r2, hn::Set(d, 0.5F), hn::Set(d, 1.0F)));
  const auto one = hn::Set(di, 1), two = hn::Set(di, 2);
  const auto odd = hn::RebindMask(d, hn::Eq(hn::And(quarter, one), one));
  const auto sine_negative = hn::RebindMask(d, hn::Eq(hn::And(quarter, two), two));
  const auto cosine_negative = hn::RebindMask(d, hn::Eq(hn::And(hn::Add(quarter, one), two), two));
  const F32Vec sine_value = hn::IfThenElse(odd, c, s), cosine_value = hn::IfThenElse(odd, s, c);
  sine = hn::IfThenElse(sine_negative, hn::Neg(sine_value), sine_value);
  cosine = hn::IfThenElse(cosine_negative, hn::Neg(cosine_value), cosine_value);
}

template <class T>
void rotary_typed(const RotaryArgs& a, int64_t row, float position) {
  const int64_t half = a.head_size / 2, width = a.x.shape.last();
  const T* x = a.x.as<const T>() + row * width;
  T* y = a.y.as<T>() + row * width;
  const float* inverse = a.inv_freq.as<const float>();
  for_span(0, half, [&](int64_t i, int64_t n) {
    F32Vec sine, cosine;
    sine_cosine(hn::Mul(hn::Set(F32Tag(), position), load_first(inverse + i, n)), sine, cosine);
    sine = hn::Mul(sine, hn::Set(F32Tag(), a.sign));
    for (int64_t at = i; at < width; at += a.head_size) {
      const F32Vec first = load_first(x + at, n), second = load_first(x + at + half, n);
      store_first(hn::Sub(hn::Mul(first, cosine), hn::Mul(second, sine)), y + at, n);
      store_first(hn::Add(hn::Mul(second, cosine), hn::Mul(first, sine)), y + at + half, n);
    }
  });
}
void rotary_row(const RotaryArgs& a, int64_t row, float position) {
  if (a.x.dtype == tensor::DType::kBF16) {
    rotary_typed<Bf16>(a, row, position);
  } else {
    rotary_typed<float>(a, row, position);
  }
}

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::backend::cpu {

HWY_EXPORT(add_span);
HWY_EXPORT(cast_span);
HWY_EXPORT(blend_row);
HWY_EXPORT(sum_squares_all);
HWY_EXPORT(adamw_span);
HWY_EXPORT(dropout_row);
HWY_EXPORT(rotary_row);

void run_add_span(const AddSpan& s, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(add_span)(s, begin, end);
}
void run_cast_span(const CastSpan& s, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(cast_span)(s, begin, end);
}
void run_blend_row(const BlendRow& r, int64_t n) { HWY_DYNAMIC_DISPATCH(blend_row)(r, n); }
double sum_squares_span(bool bf16, const void* x, int64_t begin, int64_t end) {
  return HWY_DYNAMIC_DISPATCH(sum_squares_all)(bf16, x, begin, end);
}
void run_adamw_span(const AdamwArgs& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(adamw_span)(args, begin, end);
}
void run_dropout_row(const DropoutArgs& args, int64_t row, uint64_t first, uint64_t sample) {
  HWY_DYNAMIC_DISPATCH(dropout_row)(args, row, first, sample);
}
void run_rotary_row(const RotaryArgs& args, int64_t row, float angle_position) {
  HWY_DYNAMIC_DISPATCH(rotary_row)(args, row, angle_position);
}

}  // namespace ingot::backend::cpu
#endif
