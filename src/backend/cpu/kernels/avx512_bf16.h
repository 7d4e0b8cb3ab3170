#pragma once
// Names for the AVX-512 BF16 intrinsics of the *_bf16.cc files, which alone include this. Internal linkage
// and always inlined: a copy must never serve code that runs on other machines.

#include <immintrin.h>

#include <cstdint>

#define INGOT_INLINE [[gnu::always_inline]] static inline
#define INGOT_NOINLINE [[gnu::noinline]] static

namespace ingot::backend::cpu {
namespace {  // NOLINT(google-build-namespaces): see above

using F32x16 = __m512;
using Bits512 = __m512i;
using Mask16 = __mmask16;

INGOT_INLINE F32x16 zero_f32() { return _mm512_setzero_ps(); }
INGOT_INLINE F32x16 set_f32(float value) { return _mm512_set1_ps(value); }
INGOT_INLINE F32x16 add(F32x16 a, F32x16 b) { return _mm512_add_ps(a, b); }
INGOT_INLINE F32x16 subtract(F32x16 a, F32x16 b) { return _mm512_sub_ps(a, b); }
INGOT_INLINE F32x16 multiply_f32(F32x16 a, F32x16 b) { return _mm512_mul_ps(a, b); }
INGOT_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fmadd_ps(a, b, c); }
INGOT_INLINE F32x16 multiply_subtract(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fmsub_ps(a, b, c); }
INGOT_INLINE F32x16 maximum(F32x16 a, F32x16 b) { return _mm512_max_ps(a, b); }
INGOT_INLINE F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) { return _mm512_mask_blend_ps(mask, no, yes); }
INGOT_INLINE F32x16 keep(Mask16 mask, F32x16 value) { return _mm512_maskz_mov_ps(mask, value); }

// The first n lanes: none when n <= 0, all when n >= 16.
INGOT_INLINE Mask16 first_lanes(int64_t n) {
  return n >= 16 ? Mask16{0xffff} : n <= 0 ? Mask16{0} : static_cast<Mask16>((1U << n) - 1U);
}

INGOT_INLINE F32x16 load_f32(const float* p) { return _mm512_loadu_ps(p); }
INGOT_INLINE F32x16 load_f32(const float* p, Mask16 mask) { return _mm512_maskz_loadu_ps(mask, p); }
INGOT_INLINE void store_f32(float* p, F32x16 v) { _mm512_storeu_ps(p, v); }
INGOT_INLINE void store_f32(float* p, F32x16 v, Mask16 mask) { _mm512_mask_storeu_ps(p, mask, v); }
INGOT_INLINE void stream_f32(float* p, F32x16 v) { _mm512_stream_ps(p, v); }

INGOT_INLINE Bits512 load_bits(const uint16_t* p) { return _mm512_loadu_si512(p); }
INGOT_INLINE __m256i load_bits256(const uint16_t* p, Mask16 mask) {
  return _mm256_maskz_loadu_epi16(mask, p);
}
INGOT_INLINE void store_bits(uint16_t* p, Bits512 v, bool streaming) {
  if (streaming) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), v);
  } else {
    _mm512_storeu_si512(p, v);
  }
}
INGOT_INLINE void fence_streams() { _mm_sfence(); }
INGOT_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

INGOT_INLINE F32x16 widen(__m256i v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
INGOT_INLINE F32x16 load_bf16(const uint16_t* p) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
INGOT_INLINE F32x16 load_bf16(const uint16_t* p, Mask16 mask) { return widen(load_bits256(p, mask)); }
INGOT_INLINE __m256i narrow(F32x16 v) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)); }
INGOT_INLINE Bits512 narrow(F32x16 low, F32x16 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
INGOT_INLINE void store_bf16(uint16_t* p, F32x16 v, Mask16 mask) {
  _mm256_mask_storeu_epi16(p, mask, narrow(v));
}
INGOT_INLINE void store_bf16x32(uint16_t* p, F32x16 low, F32x16 high, bool streaming) {
  store_bits(p, narrow(low, high), streaming);
}

// One pair of bf16 in every lane; broadcast_last has a zero for the second.
INGOT_INLINE Bits512 broadcast_pair(const uint16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return _mm512_set1_epi32(pair);
}
INGOT_INLINE Bits512 broadcast_last(const uint16_t* p) { return _mm512_set1_epi32(*p); }
INGOT_INLINE Bits512 ones_bf16() { return _mm512_set1_epi32(0x3f803f80); }
// c + a.even · b.even + a.odd · b.odd, lane by lane
INGOT_INLINE F32x16 dot_pairs(F32x16 c, Bits512 a, Bits512 b) {
  return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

// a0 b0 a1 b1 … of two rows of 16
INGOT_INLINE Bits512 interleave(__m256i a, __m256i b) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
}
INGOT_INLINE Bits512 low_halves(Bits512 a, Bits512 b) { return _mm512_shuffle_i64x2(a, b, 0x44); }
INGOT_INLINE Bits512 high_halves(Bits512 a, Bits512 b) { return _mm512_shuffle_i64x2(a, b, 0xee); }

}  // namespace
}  // namespace ingot::backend::cpu
