// Attention of bf16 by vdpbf16ps. Forward holds the scores of 32 queries, makes them probabilities in one
// pass and multiplies by V in one long reduction. Backward goes by 64 keys: Pᵀ and dSᵀ are made in the
// registers of the products Kᵀ and Vᵀ and stored in bf16, row-major, as the operands of dV and dK.

#include "backend/cpu/kernels/attention_kernels.h"
#include "backend/cpu/kernels/avx512_bf16.h"

namespace ingot::backend::cpu {
namespace {

constexpr int kRowsMax = 4;
constexpr int kVectorsMax = 4;
constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;
constexpr float kMasked = -1e30F;  // finite: scores may be subtracted from one another

INGOT_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INGOT_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Addresses of a product's operands, in bytes: pair k of row i at a + i · a_row + k · a_pair; B
// [pairs][..][2].
struct Operands {
  const void* a;
  int64_t a_row, a_pair;
  const uint16_t* b;
  int64_t b_pair;
  int64_t pairs;
};

template <int MR, int NR>
INGOT_INLINE void set_zero(F32x16 (&c)[MR][NR]) {
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NR; ++j) c[i][j] = zero_f32();
  }
}

template <int MR, int NR>
INGOT_INLINE void multiply_add_to(const Operands& o, F32x16 (&c)[MR][NR]) {
  const char* a = static_cast<const char*>(o.a);
  const char* b = reinterpret_cast<const char*>(o.b);
  for (int64_t p = 0; p < o.pairs; ++p) {
    Bits512 columns[NR];
    for (int j = 0; j < NR; ++j) columns[j] = load_bits(reinterpret_cast<const uint16_t*>(b + j * 64));
    for (int i = 0; i < MR; ++i) {
      const Bits512 pair = broadcast_pair(reinterpret_cast<const uint16_t*>(a + i * o.a_row));
      for (int j = 0; j < NR; ++j) c[i][j] = dot_pairs(c[i][j], pair, columns[j]);
    }
    a += o.a_pair;
    b += o.b_pair;
  }
}

template <int MR, int NR>
INGOT_INLINE void multiply(const Operands& o, F32x16 (&c)[MR][NR]) {
  set_zero(c);
  multiply_add_to(o, c);
}

// A reduction over the rows of some stretches: row r of A at a + r elements, pair r / 2 of B at b + r ·
// columns.
struct Stretches {
  const Run* runs;
  int64_t count;
};
template <int MR, int NR>
INGOT_INLINE void multiply_stretches(const Stretches& s, const uint16_t* a, int64_t a_stride,
                                     const uint16_t* b, int64_t columns, F32x16 (&c)[MR][NR]) {
  set_zero(c);
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t begin = s.runs[i].begin;
    multiply_add_to(
        {a + begin, a_stride * 2, 4, b + begin * columns, columns * 4, (s.runs[i].end - begin) / 2}, c);
  }
}

// 16 rows of up to 4 pairs, as pairs across rows: out[p][row], `step` elements from p to p + 1.
INGOT_INLINE void transpose_pairs(const uint16_t* x, int64_t stride, int64_t rows, int64_t pairs,
                                  uint16_t* out, int64_t step) {
  const auto mask = static_cast<__mmask8>(pairs >= 4 ? 15 : (1 << pairs) - 1);
  __m512i r[4];
  for (int i = 0; i < 4; ++i) {
    __m128i quarter[4];
    for (int lane = 0; lane < 4; ++lane) {
      const int row = lane * 4 + i;
      quarter[lane] = _mm_maskz_loadu_epi32(row < rows ? mask : __mmask8{0}, x + row * stride);
    }
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(quarter[0]), quarter[1], 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(quarter[2]), quarter[3], 1);
    r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
  const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
  const __m512i columns[4] = {_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c),
                              _mm512_unpacklo_epi64(b, d), _mm512_unpackhi_epi64(b, d)};
  for (int p = 0; p < 4; ++p) {
    if (p < pairs) store_bits(out + p * step, columns[p], false);
  }
}

// Rows of x [T, D] as the columns of panels [T/64][D/2][64][2]; rows after T are zero.
void pack_transposed(const uint16_t* x, int64_t stride, int64_t rows, int64_t head_size, uint16_t* out) {
  const int64_t pairs = head_size / 2;
  for (int64_t row = 0; row < padded_to_panels(rows); row += 16) {
    uint16_t* to = out + row / kKeyBlock * kKeyBlock * head_size + row % kKeyBlock * 2;
    for (int64_t p = 0; p < pairs; p += 4) {
      transpose_pairs(x + row * stride + p * 2, stride, rows - row, pairs - p, to + p * kKeyBlock * 2,
                      kKeyBlock * 2);
    }
  }
}

// Rows of x [T, D] in pairs: [T/2][columns][2], columns = D padded to 16.
void pack_interleaved(const uint16_t* x, int64_t stride, int64_t rows, int64_t padded_rows, int64_t head_size,
                      int64_t columns, uint16_t* out) {
  for (int64_t row = 0; row < padded_rows; row += 2) {
    const uint16_t* from = x + row * stride;
    for (int64_t c = 0; c < columns; c += 16) {
      const Mask16 mask = first_lanes(head_size - c);
      const __m256i first = load_bits256(from + c, row < rows ? mask : Mask16{0});
      const __m256i second = load_bits256(from + stride + c, row + 1 < rows ? mask : Mask16{0});
      store_bits(out + row * columns + c * 2, interleave(first, second), false);
    }
  }
}

// 2^t: minimax polynomial of degree 4 on [-1/2, 1/2], relative error 3e-6: P is bf16. 0 for t <= -200.
INGOT_INLINE F32x16 power_of_two(F32x16 t) {
  t = maximum(set_f32(-200.0F), t);  // in this order NaN stays NaN
  const F32x16 whole = _mm512_roundscale_ps(t, 8);
  const F32x16 f = subtract(t, whole);
  F32x16 r = set_f32(9.570101908e-3F);
  r = multiply_add(r, f, set_f32(5.591786032e-2F));
  r = multiply_add(r, f, set_f32(2.402474483e-1F));
  r = multiply_add(r, f, set_f32(6.931218147e-1F));
  r = multiply_add(r, f, set_f32(9.999992614e-1F));
  return _mm512_scalef_ps(r, whole);
}

INGOT_INLINE __m512i load_ints(const int32_t* p, Mask16 mask) { return _mm512_maskz_loadu_epi32(mask, p); }

struct ForwardBuffers {
  uint16_t* keys;    // [T/64][D/2][64][2]
  uint16_t* values;  // [T/2][columns][2]
  float* scores;     // [32][score_stride]
  uint16_t* probabilities;
  int64_t score_stride, probability_stride, columns;
};

struct QueryBlock {
  int64_t begin, rows;  // queries
  Stretches keys;       // of which any is seen, by 32
};

QueryBlock query_block(const AttentionForwardTask& t, int64_t begin) {
  const Visibility& v = t.visibility;
  const int64_t count = make_runs(v, padded_to_panels(v.keys) / kBoundsBlock, kBoundsBlock,
                                  [&](int64_t k) { return any_visible(v, begin / kBoundsBlock, k); });
  return {begin, smaller(kQueryBlock, v.queries - begin), {v.runs, count}};
}

// Lanes of 16 keys from `key` that query `row` sees.
INGOT_INLINE Mask16 visible_keys(const AttentionForwardTask& t, int64_t row, int64_t key) {
  const Mask16 inside = first_lanes(t.visibility.keys - key);
  const __m512i at = load_ints(t.visibility.key_position + key, inside);
  const __m512i from = _mm512_set1_epi32(t.visibility.doc_start[row]),
                to = _mm512_set1_epi32(t.visibility.query_position[row]);
  return static_cast<Mask16>(inside & _mm512_cmp_epi32_mask(from, at, _MM_CMPINT_LE) &
                             _mm512_cmp_epi32_mask(at, to, _MM_CMPINT_LE));
}

template <int MR>
void score_tile(const AttentionForwardTask& t, const ForwardBuffers& w, const QueryBlock& block, int64_t row,
                int64_t key, bool full, F32x16* row_max) {
  F32x16 c[MR][4];
  const auto* q = static_cast<const uint16_t*>(t.q) + (block.begin + row) * t.q_stride;
  multiply<MR, 4>({q, t.q_stride * 2, 4, w.keys + key * t.head_size, kKeyBlock * 4, t.head_size / 2}, c);
  if (!full) {
    for (int i = 0; i < MR; ++i) {
      for (int j = 0; j < 4; ++j) {
        c[i][j] = select(visible_keys(t, block.begin + row + i, key + j * 16), c[i][j], set_f32(kMasked));
      }
    }
  }
  for (int i = 0; i < MR; ++i) {
    F32x16 m = row_max[row + i];
    for (int j = 0; j < 4; ++j) {
      store_f32(w.scores + (row + i) * w.score_stride + key + j * 16, c[i][j]);
      m = maximum(m, c[i][j]);
    }
    row_max[row + i] = m;
  }
}

// One row of scores to probabilities before division; returns 1 / their sum.
float exponentials(const AttentionForwardTask& t, const ForwardBuffers& w, const QueryBlock& block,
                   int64_t row, F32x16 row_max) {
  const float highest = _mm512_reduce_max_ps(row_max);
  const int64_t query = block.begin + row;
  // Where nothing is seen every score is that of a masked key: its difference from itself, fused, is no zero.
  const bool sees_nothing = highest <= kMasked * 0.5F;
  const F32x16 factor = set_f32(t.scale * kLog2E),
               shift = set_f32(sees_nothing ? 0.0F : highest * t.scale * kLog2E);
  const float* scores = w.scores + row * w.score_stride;
  uint16_t* out = w.probabilities + row * w.probability_stride;
  F32x16 even = zero_f32(), odd = zero_f32();
  for (int64_t i = 0; i < block.keys.count; ++i) {
    for (int64_t key = block.keys.runs[i].begin; key < block.keys.runs[i].end; key += 32) {
      const F32x16 a = power_of_two(multiply_subtract(load_f32(scores + key), factor, shift));
      const F32x16 b = power_of_two(multiply_subtract(load_f32(scores + key + 16), factor, shift));
      even = add(even, a);
      odd = add(odd, b);
      store_bf16x32(out + key, a, b, false);
    }
  }
  const float sum = _mm512_reduce_add_ps(add(even, odd));
  t.lse[query * t.lse_stride] =
      sees_nothing ? -__builtin_inff() : highest * t.scale + kLn2 * __builtin_log2f(sum);
  return sees_nothing ? 0.0F : 1.0F / sum;
}

template <int MR, int NR>
void value_tile(const AttentionForwardTask& t, const ForwardBuffers& w, const QueryBlock& block, int64_t row,
                int64_t column, const float* inverse) {
  F32x16 c[MR][NR];
  multiply_stretches<MR, NR>(block.keys, w.probabilities + row * w.probability_stride, w.probability_stride,
                             w.values + column * 2, w.columns, c);
  for (int i = 0; i < MR; ++i) {
    const F32x16 factor = set_f32(inverse[row + i]);
    auto* o = static_cast<uint16_t*>(t.o) + (block.begin + row + i) * t.o_stride + column;
    for (int j = 0; j < NR; ++j) {
      store_bf16(o + j * 16, multiply_f32(c[i][j], factor), first_lanes(t.head_size - column - j * 16));
    }
  }
}

// Calls body.template operator()<MR, NR>() for the given sizes.
template <int MR, class Body>
INGOT_INLINE void with_vectors(int64_t vectors, const Body& body) {
  switch (vectors) {
    case 1:
      return body.template operator()<MR, 1>();
    case 2:
      return body.template operator()<MR, 2>();
    case 3:
      return body.template operator()<MR, 3>();
    default:
      return body.template operator()<MR, 4>();
  }
}
template <class Body>
INGOT_INLINE void with_tile(int64_t rows, int64_t vectors, const Body& body) {
  switch (rows) {
    case 1:
      return with_vectors<1>(vectors, body);
    case 2:
      return with_vectors<2>(vectors, body);
    case 3:
      return with_vectors<3>(vectors, body);
    default:
      return with_vectors<4>(vectors, body);
  }
}

void forward_block(const AttentionForwardTask& t, const ForwardBuffers& w, const QueryBlock& block) {
  F32x16 row_max[kQueryBlock];
  float inverse[kQueryBlock];
  for (int64_t i = 0; i < block.rows; ++i) row_max[i] = set_f32(kMasked);
  for (int64_t i = 0, next = 0; i < block.keys.count; ++i) {
    // Panels of 64, each once.
    int64_t key = larger(block.keys.runs[i].begin / kKeyBlock * kKeyBlock, next);
    for (; key < block.keys.runs[i].end; key += kKeyBlock) {
      const int64_t q = block.begin / kBoundsBlock, k = key / kBoundsBlock;
      const bool full = all_visible(t.visibility, q, k) && all_visible(t.visibility, q, k + 1);
      for (int64_t row = 0; row < block.rows; row += kRowsMax) {
        with_tile(smaller(kRowsMax, block.rows - row), kVectorsMax, [&]<int MR, int NR>() {
          if constexpr (NR == 4) score_tile<MR>(t, w, block, row, key, full, row_max);
        });
      }
    }
    next = key;
  }
  for (int64_t i = 0; i < block.rows; ++i) inverse[i] = exponentials(t, w, block, i, row_max[i]);
  for (int64_t column = 0; column < w.columns; column += kVectorsMax * 16) {
    for (int64_t row = 0; row < block.rows; row += kRowsMax) {
      with_tile(smaller(kRowsMax, block.rows - row), smaller(kVectorsMax, (w.columns - column) / 16),
                [&]<int MR, int NR>() { value_tile<MR, NR>(t, w, block, row, column, inverse); });
    }
  }
}

template <class T>
INGOT_INLINE T* take(std::byte*& scratch, int64_t count) {
  T* taken = reinterpret_cast<T*>(scratch);
  scratch += count * static_cast<int64_t>(sizeof(T));
  return taken;
}

void forward(const AttentionForwardTask& t) {
  const int64_t keys = t.visibility.keys, padded = padded_to_panels(keys);
  ForwardBuffers w{};
  std::byte* scratch = t.scratch;
  w.columns = (t.head_size + 15) / 16 * 16;
  w.score_stride = padded + 16;
  w.probability_stride = padded + 32;
  w.keys = take<uint16_t>(scratch, padded * w.columns);
  w.values = take<uint16_t>(scratch, padded * w.columns);
  w.scores = take<float>(scratch, kQueryBlock * w.score_stride);
  w.probabilities = take<uint16_t>(scratch, kQueryBlock * w.probability_stride);
  pack_transposed(static_cast<const uint16_t*>(t.k), t.kv_stride, keys, t.head_size, w.keys);
  pack_interleaved(static_cast<const uint16_t*>(t.v), t.kv_stride, keys, padded, t.head_size, w.columns,
                   w.values);
  for (int64_t query = 0; query < t.visibility.queries; query += kQueryBlock)
    forward_block(t, w, query_block(t, query));
}

// ---- backward

struct BackwardBuffers {
  uint16_t *queries, *grads;              // transposed: [T/64][D/2][64][2]
  uint16_t *query_pairs, *grad_pairs;     // interleaved: [T/2][columns][2]
  uint16_t *probabilities, *grad_scores;  // of 64 keys: [64][row_stride]
  uint16_t* score_pairs;                  // [32][pair_stride][2], pairs of keys
  uint16_t* key_pairs;                    // [32][columns][2]
  float *lse2, *delta;                    // [T]: lse in powers of two, Σ o · grad_o
  float* grad_q;                          // [T][columns]
  float *grad_k, *grad_v;                 // [S][columns]
  int64_t padded, columns, row_stride, pair_stride;
};

BackwardBuffers backward_buffers(const AttentionBackwardTask& t) {
  BackwardBuffers w{};
  std::byte* scratch = t.scratch;
  w.padded = padded_to_panels(t.visibility.queries);
  const int64_t padded_keys = padded_to_panels(t.visibility.keys);
  w.columns = (t.head_size + 15) / 16 * 16;
  w.row_stride = w.padded + 32;
  w.pair_stride = w.padded + 16;
  w.queries = take<uint16_t>(scratch, w.padded * w.columns);
  w.grads = take<uint16_t>(scratch, w.padded * w.columns);
  w.query_pairs = take<uint16_t>(scratch, w.padded * w.columns);
  w.grad_pairs = take<uint16_t>(scratch, w.padded * w.columns);
  w.probabilities = take<uint16_t>(scratch, kKeyBlock * w.row_stride);
  w.grad_scores = take<uint16_t>(scratch, kKeyBlock * w.row_stride);
  w.score_pairs = take<uint16_t>(scratch, kKeyBlock * w.pair_stride);
  w.key_pairs = take<uint16_t>(scratch, kKeyBlock * w.columns);
  w.grad_q = take<float>(scratch, w.padded * w.columns);
  w.grad_k = take<float>(scratch, padded_keys * w.columns);
  w.grad_v = take<float>(scratch, padded_keys * w.columns);
  w.lse2 = take<float>(scratch, w.padded);
  w.delta = take<float>(scratch, w.padded);
  return w;
}

// The parts of one query head that all key blocks read.
void prepare_query_head(const AttentionBackwardTask& t, const BackwardBuffers& w, int64_t head) {
  const auto* q = static_cast<const uint16_t*>(t.q) + head * t.head_size;
  const auto* o = static_cast<const uint16_t*>(t.o) + head * t.head_size;
  const auto* grad_o = static_cast<const uint16_t*>(t.grad_o) + head * t.head_size;
  const int64_t queries = t.visibility.queries;
  pack_transposed(q, t.q_stride, queries, t.head_size, w.queries);
  pack_transposed(grad_o, t.o_stride, queries, t.head_size, w.grads);
  pack_interleaved(q, t.q_stride, queries, w.padded, t.head_size, w.columns, w.query_pairs);
  pack_interleaved(grad_o, t.o_stride, queries, w.padded, t.head_size, w.columns, w.grad_pairs);
  for (int64_t row = 0; row < queries; ++row) {
    F32x16 sum = zero_f32();
    for (int64_t c = 0; c < t.head_size; c += 16) {
      const Mask16 mask = first_lanes(t.head_size - c);
      sum = multiply_add(load_bf16(o + row * t.o_stride + c, mask),
                         load_bf16(grad_o + row * t.o_stride + c, mask), sum);
    }
    w.delta[row] = _mm512_reduce_add_ps(sum);
    const float lse = t.lse[row * t.lse_stride + head];
    w.lse2[row] = lse < kMasked ? -kMasked : lse * kLog2E;  // a query that sees nothing: every 2^(…) is 0
  }
  for (int64_t row = queries; row < w.padded; ++row) {
    w.delta[row] = 0;
    w.lse2[row] = -kMasked;
  }
  for (int64_t i = 0; i < w.padded * w.columns; i += 16) store_f32(w.grad_q + i, zero_f32());
}

struct KeyRange {
  int64_t begin, rows;  // keys
  Stretches queries;    // that see any, by 64
};

// Whether queries [64 q, ..) see any of keys [key, key + 64), or each sees each.
template <class Visible>
INGOT_INLINE int visible_quarters(const Visible& visible, const Visibility& v, int64_t q, int64_t key) {
  const int64_t k = key / kBoundsBlock;
  return int{visible(v, 2 * q, k)} + int{visible(v, 2 * q, k + 1)} + int{visible(v, 2 * q + 1, k)} +
         int{visible(v, 2 * q + 1, k + 1)};
}

KeyRange key_range(const AttentionBackwardTask& t, int64_t padded, int64_t begin) {
  const Visibility& v = t.visibility;
  const int64_t count = make_runs(v, padded / kKeyBlock, kKeyBlock,
                                  [&](int64_t q) { return visible_quarters(any_visible, v, q, begin) > 0; });
  return {begin, smaller(kKeyBlock, v.keys - begin), {v.runs, count}};
}

INGOT_INLINE Mask16 visible_queries(const AttentionBackwardTask& t, int64_t key, int64_t query) {
  const Mask16 inside = first_lanes(t.visibility.queries - query);
  const __m512i at = _mm512_set1_epi32(t.visibility.key_position[key]);
  const __m512i from = load_ints(t.visibility.doc_start + query, inside);
  const __m512i to = load_ints(t.visibility.query_position + query, inside);
  return static_cast<Mask16>(inside & _mm512_cmp_epi32_mask(from, at, _MM_CMPINT_LE) &
                             _mm512_cmp_epi32_mask(at, to, _MM_CMPINT_LE));
}

template <int MR>
void probability_tile(const AttentionBackwardTask& t, const BackwardBuffers& w, const KeyRange& keys,
                      int64_t row, int64_t query, bool full) {
  F32x16 c[MR][4];
  const auto* k = static_cast<const uint16_t*>(t.k) + (keys.begin + row) * t.kv_stride;
  multiply<MR, 4>({k, t.kv_stride * 2, 4, w.queries + query * t.head_size, kKeyBlock * 4, t.head_size / 2},
                  c);
  const F32x16 factor = set_f32(t.scale * kLog2E);
  for (int j = 0; j < 4; ++j) {
    const F32x16 lse = load_f32(w.lse2 + query + j * 16);
    for (int i = 0; i < MR; ++i) c[i][j] = power_of_two(multiply_subtract(c[i][j], factor, lse));
  }
  if (!full) {
    for (int i = 0; i < MR; ++i) {
      for (int j = 0; j < 4; ++j) {
        c[i][j] = keep(visible_queries(t, keys.begin + row + i, query + j * 16), c[i][j]);
      }
    }
  }
  for (int i = 0; i < MR; ++i) {
    uint16_t* out = w.probabilities + (row + i) * w.row_stride + query;
    for (int j = 0; j < 4; j += 2) store_bf16x32(out + j * 16, c[i][j], c[i][j + 1], false);
  }
}

template <int MR>
void grad_score_tile(const AttentionBackwardTask& t, const BackwardBuffers& w, const KeyRange& keys,
                     int64_t row, int64_t query) {
  F32x16 c[MR][4];
  const auto* v = static_cast<const uint16_t*>(t.v) + (keys.begin + row) * t.kv_stride;
  multiply<MR, 4>({v, t.kv_stride * 2, 4, w.grads + query * t.head_size, kKeyBlock * 4, t.head_size / 2}, c);
  for (int j = 0; j < 4; j += 2) {
    const F32x16 first = load_f32(w.delta + query + j * 16), second = load_f32(w.delta + query + j * 16 + 16);
    for (int i = 0; i < MR; ++i) {
      const int64_t at = (row + i) * w.row_stride + query + j * 16;
      const F32x16 low = multiply_f32(subtract(c[i][j], first), load_bf16(w.probabilities + at));
      const F32x16 high = multiply_f32(subtract(c[i][j + 1], second), load_bf16(w.probabilities + at + 16));
      store_bf16x32(w.grad_scores + at, low, high, false);
    }
  }
}

// One long reduction over queries: grad_v from Pᵀ and grad_o, grad_k from dSᵀ and q. A group of one query
// head writes its result; larger ones add theirs to `sums`.
struct KeyGradient {
  const uint16_t* a;
  const uint16_t* b;
  float scale;
  float* sums;
  uint16_t* out;
};

template <int MR, int NR>
void key_gradient_tile(const AttentionBackwardTask& t, const BackwardBuffers& w, const KeyRange& keys,
                       const KeyGradient& g, int64_t row, int64_t column, bool first, bool last) {
  F32x16 c[MR][NR];
  multiply_stretches<MR, NR>(keys.queries, g.a + row * w.row_stride, w.row_stride, g.b + column * 2,
                             w.columns, c);
  const F32x16 factor = set_f32(g.scale);
  for (int i = 0; i < MR; ++i) {
    const int64_t key = keys.begin + row + i;
    float* sums = g.sums + key * w.columns + column;
    uint16_t* out = g.out + key * t.kv_stride + column;
    for (int j = 0; j < NR; ++j) {
      F32x16 value = multiply_f32(c[i][j], factor);
      if (!first) value = add(value, load_f32(sums + j * 16));
      if (last) {
        store_bf16(out + j * 16, value, first_lanes(t.head_size - column - j * 16));
      } else {
        store_f32(sums + j * 16, value);
      }
    }
  }
}

void key_gradient(const AttentionBackwardTask& t, const BackwardBuffers& w, const KeyRange& keys,
                  const KeyGradient& g, int64_t head) {
  for (int64_t column = 0; column < w.columns; column += kVectorsMax * 16) {
    for (int64_t row = 0; row < keys.rows; row += kRowsMax) {
      with_tile(smaller(kRowsMax, keys.rows - row), smaller(kVectorsMax, (w.columns - column) / 16),
                [&]<int MR, int NR>() {
                  key_gradient_tile<MR, NR>(t, w, keys, g, row, column, head == 0, head + 1 == t.group);
                });
    }
  }
}

// dSᵀ of pairs of keys, side by side: the operand of grad_q.
void pair_grad_scores(const BackwardBuffers& w, const KeyRange& keys) {
  for (int64_t key = 0; key < keys.rows; key += 2) {
    const uint16_t* row = w.grad_scores + key * w.row_stride;
    const Mask16 second = key + 1 < keys.rows ? Mask16{0xffff} : Mask16{0};
    uint16_t* out = w.score_pairs + key * w.pair_stride;
    for (int64_t i = 0; i < keys.queries.count; ++i) {
      for (int64_t q = keys.queries.runs[i].begin; q < keys.queries.runs[i].end; q += 16) {
        store_bits(
            out + q * 2,
            interleave(load_bits256(row + q, Mask16{0xffff}), load_bits256(row + w.row_stride + q, second)),
            false);
      }
    }
  }
}

template <int MR, int NR>
void query_gradient_tile(const BackwardBuffers& w, const KeyRange& keys, int64_t query, int64_t column) {
  F32x16 c[MR][NR];
  float* out = w.grad_q + query * w.columns + column;
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NR; ++j) prefetch(out + i * w.columns + j * 16);
  }
  multiply<MR, NR>({w.score_pairs + query * 2, 4, w.pair_stride * 4, w.key_pairs + column * 2, w.columns * 4,
                    (keys.rows + 1) / 2},
                   c);
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NR; ++j) {
      float* at = out + i * w.columns + j * 16;
      store_f32(at, add(load_f32(at), c[i][j]));
    }
  }
}

void make_grad_scores(const AttentionBackwardTask& t, const BackwardBuffers& w, const KeyRange& keys,
                      int64_t query) {
  const bool full = visible_quarters(all_visible, t.visibility, query / kKeyBlock, keys.begin) == 4;
  for (int64_t row = 0; row < keys.rows; row += kRowsMax) {
    with_tile(smaller(kRowsMax, keys.rows - row), kVectorsMax, [&]<int MR, int NR>() {
      if constexpr (NR == 4) probability_tile<MR>(t, w, keys, row, query, full);
    });
  }
  for (int64_t row = 0; row < keys.rows; row += kRowsMax) {
    with_tile(smaller(kRowsMax, keys.rows - row), kVectorsMax, [&]<int MR, int NR>() {
      if constexpr (NR == 4) grad_score_tile<MR>(t, w, keys, row, query);
    });
  }
}

void query_gradient(const BackwardBuffers& w, const KeyRange& keys, const Run& queries, int64_t column) {
  for (int64_t query = queries.begin; query < queries.end; query += kRowsMax) {
    with_vectors<kRowsMax>(smaller(kVectorsMax, (w.columns - column) / 16),
                           [&]<int MR, int NR>() { query_gradient_tile<MR, NR>(w, keys, query, column); });
  }
}

void backward_keys(const AttentionBackwardTask& t, const BackwardBuffers& w, const KeyRange& keys,
                   int64_t head) {
  for (int64_t i = 0; i < keys.queries.count; ++i) {
    for (int64_t query = keys.queries.runs[i].begin; query < keys.queries.runs[i].end; query += kKeyBlock)
      make_grad_scores(t, w, keys, query);
  }
  key_gradient(t, w, keys, {w.probabilities, w.grad_pairs, 1.0F, w.grad_v, static_cast<uint16_t*>(t.grad_v)},
               head);
  key_gradient(t, w, keys,
               {w.grad_scores, w.query_pairs, t.scale, w.grad_k, static_cast<uint16_t*>(t.grad_k)}, head);
  pair_grad_scores(w, keys);
  pack_interleaved(static_cast<const uint16_t*>(t.k) + keys.begin * t.kv_stride, t.kv_stride, keys.rows,
                   (keys.rows + 1) / 2 * 2, t.head_size, w.columns, w.key_pairs);
  for (int64_t column = 0; column < w.columns; column += kVectorsMax * 16) {
    for (int64_t i = 0; i < keys.queries.count; ++i) query_gradient(w, keys, keys.queries.runs[i], column);
  }
}

void backward(const AttentionBackwardTask& t) {
  const BackwardBuffers w = backward_buffers(t);
  for (int64_t head = 0; head < t.group; ++head) {
    prepare_query_head(t, w, head);
    for (int64_t key = 0; key < t.visibility.keys; key += kKeyBlock)
      backward_keys(t, w, key_range(t, w.padded, key), head);
    auto* grad_q = static_cast<uint16_t*>(t.grad_q) + head * t.head_size;
    for (int64_t row = 0; row < t.visibility.queries; ++row) {
      for (int64_t c = 0; c < t.head_size; c += 16) {
        store_bf16(grad_q + row * t.q_stride + c,
                   multiply_f32(load_f32(w.grad_q + row * w.columns + c), set_f32(t.scale)),
                   first_lanes(t.head_size - c));
      }
    }
  }
}

}  // namespace

const AttentionKernels kNativeBf16Attention{forward, backward, native_forward_bytes, native_backward_bytes};

}  // namespace ingot::backend::cpu
