// Attention in f32 arithmetic for f32 and bf16 tensors, on any machine: the blocks of attention_bf16.cc with
// f32 copies of what a block reads.

#include "backend/cpu/kernels/attention_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/attention_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/bf16-inl.h"
#include "backend/cpu/kernels/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ingot::backend::cpu::HWY_NAMESPACE {

constexpr int kVectors = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 4 : 2;
constexpr int kRowsMax = 4;
constexpr float kMasked = -1e30F;  // finite: scores may be subtracted from one another

HWY_INLINE int64_t padded_columns(int64_t head_size) { return (head_size + 15) / 16 * 16; }

// Element k of row i at a + i · row_step + k · k_step; b [k][b_step]; the sum is over the k of all runs.
struct Operands {
  const float* a;
  int64_t row_step, k_step;
  const float* b;
  int64_t b_step;
  const Run* runs;
  int64_t run_count;
};

template <int MR, int NV, class Finish>
HWY_INLINE void multiply_tile(const Operands& o, const Finish& finish) {
  const F32Tag d;
  F32Vec c[MR][NV];
  for (auto& row : c) {
    for (auto& value : row) value = hn::Zero(d);
  }
  for (int64_t run = 0; run < o.run_count; ++run) {
    const float *a = o.a + o.runs[run].begin * o.k_step, *b = o.b + o.runs[run].begin * o.b_step;
    for (int64_t k = o.runs[run].begin; k < o.runs[run].end; ++k) {
      F32Vec columns[NV];
      for (int j = 0; j < NV; ++j) columns[j] = hn::LoadU(d, b + j * lanes());
      for (int i = 0; i < MR; ++i) {
        const F32Vec value = hn::Set(d, a[i * o.row_step]);
        for (int j = 0; j < NV; ++j) c[i][j] = hn::MulAdd(value, columns[j], c[i][j]);
      }
      a += o.k_step;
      b += o.b_step;
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NV; ++j) finish(i, j * lanes(), c[i][j]);
  }
}

// finish(row, column, sums) for every vector of a product of `rows` by `columns` (a multiple of the lanes).
template <int MR, class Finish>
void multiply_rows(int64_t row, int64_t columns, Operands o, const Finish& finish) {
  o.a += row * o.row_step;
  int64_t column = 0;
  const float* b = o.b;
  for (; column + kVectors * lanes() <= columns; column += kVectors * lanes()) {
    o.b = b + column;
    multiply_tile<MR, kVectors>(o, [&](int i, int64_t j, F32Vec c) { finish(row + i, column + j, c); });
  }
  for (; column < columns; column += lanes()) {
    o.b = b + column;
    multiply_tile<MR, 1>(o, [&](int i, int64_t j, F32Vec c) { finish(row + i, column + j, c); });
  }
}
template <class Finish>
void multiply(int64_t rows, int64_t columns, const Operands& o, const Finish& finish) {
  int64_t row = 0;
  for (; row + kRowsMax <= rows; row += kRowsMax) multiply_rows<kRowsMax>(row, columns, o, finish);
  for (; row < rows; ++row) multiply_rows<1>(row, columns, o, finish);
}

// Columns of panels [T/64][D][64]; rows after `rows` are zero.
template <class T>
void copy_transposed(const T* x, int64_t stride, int64_t rows, int64_t head_size, float* out) {
  for (int64_t row = 0; row < padded_to_panels(rows); ++row) {
    float* to = out + row / kKeyBlock * kKeyBlock * head_size + row % kKeyBlock;
    for (int64_t c = 0; c < head_size; ++c)
      to[c * kKeyBlock] = row < rows ? to_f32(x[row * stride + c]) : 0.0F;
  }
}
// [padded rows][columns]; what lies outside x is zero.
template <class T>
void copy_rows(const T* x, int64_t stride, int64_t rows, int64_t padded_rows, int64_t head_size, float* out) {
  const int64_t columns = padded_columns(head_size);
  for (int64_t row = 0; row < padded_rows; ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      out[row * columns + c] = row < rows && c < head_size ? to_f32(x[row * stride + c]) : 0.0F;
    }
  }
}

// Padded so that no key behind the last is seen and no query behind the last sees.
struct PaddedVisibility {
  int32_t *query_position, *doc_start, *key_position;
  void fill(const Visibility& v) const {
    for (int64_t i = 0; i < padded_to_panels(v.queries); ++i) {
      query_position[i] = i < v.queries ? v.query_position[i] : std::numeric_limits<int32_t>::min();
      doc_start[i] = i < v.queries ? v.doc_start[i] : std::numeric_limits<int32_t>::max();
    }
    for (int64_t i = 0; i < padded_to_panels(v.keys); ++i)
      key_position[i] = i < v.keys ? v.key_position[i] : std::numeric_limits<int32_t>::min();
  }
};

template <class V>
HWY_INLINE hn::Mask<F32Tag> between(V low, V value, V high) {
  const F32Tag d;
  return hn::RebindMask(d, hn::Not(hn::Or(hn::Gt(low, value), hn::Gt(value, high))));
}

template <class T>
T* take(std::byte*& scratch, int64_t count) {
  T* taken = reinterpret_cast<T*>(scratch);
  scratch += count * static_cast<int64_t>(sizeof(T));
  return taken;
}

// Calls body(first) for every block of 64 of the runs.
template <class Body>
HWY_INLINE void for_blocks(const Run* runs, int64_t count, const Body& body) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t at = runs[i].begin; at < runs[i].end; at += kKeyBlock) body(at);
}

struct ForwardBuffers {
  float *keys, *values, *queries, *scores;
  PaddedVisibility visible;
  int64_t stride, columns;
};

inline PaddedVisibility take_visibility(const Visibility& v, std::byte*& scratch) {
  const int64_t queries = padded_to_panels(v.queries), keys = padded_to_panels(v.keys);
  const PaddedVisibility visible{take<int32_t>(scratch, queries), take<int32_t>(scratch, queries),
                                 take<int32_t>(scratch, keys)};
  visible.fill(v);
  return visible;
}

// Scores of one row to probabilities before division; returns 1 / their sum and writes lse.
inline float exponentials(const ForwardBuffers& w, float scale, int64_t row, const Run* runs, int64_t count,
                          float* lse) {
  const F32Tag d;
  float* scores = w.scores + row * w.stride;
  F32Vec highest = hn::Set(d, kMasked);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t key = runs[i].begin; key < runs[i].end; key += lanes())
      highest = hn::Max(highest, hn::LoadU(d, scores + key));
  const float top = hn::GetLane(hn::MaxOfLanes(d, highest));
  // Where nothing is seen every score is that of a masked key: its difference from itself, fused, is no zero.
  const bool sees_nothing = top <= kMasked * 0.5F;
  const F32Vec factor = hn::Set(d, scale * kLog2E),
               shift = hn::Set(d, sees_nothing ? 0.0F : top * scale * kLog2E);
  F32Vec sum = hn::Zero(d);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t key = runs[i].begin; key < runs[i].end; key += lanes()) {
      const F32Vec p = power_of_two(hn::MulSub(hn::LoadU(d, scores + key), factor, shift));
      sum = hn::Add(sum, p);
      hn::StoreU(p, d, scores + key);
    }
  }
  *lse = sees_nothing ? -std::numeric_limits<float>::infinity() : top * scale + std::log(sum_of(sum));
  return sees_nothing ? 0.0F : 1.0F / sum_of(sum);
}

template <class T>
void forward_block(const AttentionForwardTask& t, const ForwardBuffers& w, int64_t begin) {
  const hn::Rebind<int32_t, F32Tag> di;
  const Visibility& v = t.visibility;
  const int64_t rows = std::min(kQueryBlock, v.queries - begin), q = begin / kBoundsBlock;
  const int64_t panels = make_runs(v, padded_to_panels(v.keys) / kKeyBlock, kKeyBlock, [&](int64_t k) {
    return any_visible(v, q, 2 * k) || any_visible(v, q, 2 * k + 1);
  });
  const Run head{0, t.head_size};
  copy_rows(static_cast<const T*>(t.q) + begin * t.q_stride, t.q_stride, rows, rows, t.head_size, w.queries);
  for_blocks(v.runs, panels, [&](int64_t key) {
    multiply(rows, kKeyBlock, {w.queries, w.columns, 1, w.keys + key * t.head_size, kKeyBlock, &head, 1},
             [&](int64_t row, int64_t column, F32Vec c) {
               const auto at = hn::LoadU(di, w.visible.key_position + key + column);
               const auto mask = between(hn::Set(di, w.visible.doc_start[begin + row]), at,
                                         hn::Set(di, w.visible.query_position[begin + row]));
               hn::StoreU(hn::IfThenElse(mask, c, hn::Set(F32Tag(), kMasked)), F32Tag(),
                          w.scores + row * w.stride + key + column);
             });
  });
  float inverse[kQueryBlock];
  for (int64_t row = 0; row < rows; ++row) {
    float* lse = t.lse + (begin + row) * t.lse_stride;
    inverse[row] = exponentials(w, t.scale, row, v.runs, panels, lse);
  }
  multiply(rows, w.columns, {w.scores, w.stride, 1, w.values, w.columns, v.runs, panels},
           [&](int64_t row, int64_t column, F32Vec c) {
             if (column >= t.head_size) return;
             T* o = static_cast<T*>(t.o) + (begin + row) * t.o_stride + column;
             store_first(hn::Mul(c, hn::Set(F32Tag(), inverse[row])), o,
                         std::min(lanes(), t.head_size - column));
           });
}

template <class T>
void forward_head(const AttentionForwardTask& t) {
  const int64_t keys = t.visibility.keys, padded = padded_to_panels(keys);
  std::byte* scratch = t.scratch;
  ForwardBuffers w{};
  w.columns = padded_columns(t.head_size);
  w.stride = padded + 16;
  w.keys = take<float>(scratch, padded * w.columns);
  w.values = take<float>(scratch, padded * w.columns);
  w.queries = take<float>(scratch, kQueryBlock * w.columns);
  w.scores = take<float>(scratch, kQueryBlock * w.stride);
  w.visible = take_visibility(t.visibility, scratch);
  copy_transposed(static_cast<const T*>(t.k), t.kv_stride, keys, t.head_size, w.keys);
  copy_rows(static_cast<const T*>(t.v), t.kv_stride, keys, padded, t.head_size, w.values);
  for (int64_t query = 0; query < t.visibility.queries; query += kQueryBlock) forward_block<T>(t, w, query);
}
void forward_f32(const AttentionForwardTask& t) { forward_head<float>(t); }
void forward_bf16(const AttentionForwardTask& t) { forward_head<Bf16>(t); }

struct BackwardBuffers {
  float *queries, *grads;              // transposed panels
  float *query_rows, *grad_rows;       // [T][columns]
  float *key_rows, *value_rows;        // [64][columns]
  float *probabilities, *grad_scores;  // [64][stride]
  float* grad_q;                       // [T][columns]
  float *grad_k, *grad_v;              // [S][columns]
  float *lse2, *delta;                 // [T]
  PaddedVisibility visible;
  int64_t padded, stride, columns;
};

inline BackwardBuffers backward_buffers(const AttentionBackwardTask& t) {
  std::byte* scratch = t.scratch;
  BackwardBuffers w{};
  w.padded = padded_to_panels(t.visibility.queries);
  w.columns = padded_columns(t.head_size);
  w.stride = w.padded + 16;
  for (float** part : {&w.queries, &w.grads, &w.query_rows, &w.grad_rows, &w.grad_q}) {
    *part = take<float>(scratch, w.padded * w.columns);
  }
  for (float** part : {&w.grad_k, &w.grad_v}) {
    *part = take<float>(scratch, padded_to_panels(t.visibility.keys) * w.columns);
  }
  for (float** part : {&w.key_rows, &w.value_rows}) *part = take<float>(scratch, kKeyBlock * w.columns);
  for (float** part : {&w.probabilities, &w.grad_scores}) *part = take<float>(scratch, kKeyBlock * w.stride);
  for (float** part : {&w.lse2, &w.delta}) *part = take<float>(scratch, w.padded);
  w.visible = take_visibility(t.visibility, scratch);
  return w;
}

template <class T>
void prepare_query_head(const AttentionBackwardTask& t, const BackwardBuffers& w, int64_t head) {
  const auto* q = static_cast<const T*>(t.q) + head * t.head_size;
  const auto* o = static_cast<const T*>(t.o) + head * t.head_size;
  const auto* grad_o = static_cast<const T*>(t.grad_o) + head * t.head_size;
  const int64_t queries = t.visibility.queries;
  copy_transposed(q, t.q_stride, queries, t.head_size, w.queries);
  copy_transposed(grad_o, t.o_stride, queries, t.head_size, w.grads);
  copy_rows(q, t.q_stride, queries, w.padded, t.head_size, w.query_rows);
  copy_rows(grad_o, t.o_stride, queries, w.padded, t.head_size, w.grad_rows);
  for (int64_t row = 0; row < w.padded; ++row) {
    float sum = 0;
    for (int64_t c = 0; c < t.head_size && row < queries; ++c) {
      sum += to_f32(o[row * t.o_stride + c]) * to_f32(grad_o[row * t.o_stride + c]);
    }
    w.delta[row] = sum;
    const float lse = row < queries ? t.lse[row * t.lse_stride + head] : kMasked * 2;
    w.lse2[row] = lse < kMasked ? -kMasked : lse * kLog2E;  // a query that sees nothing: every 2^(…) is 0
  }
  std::fill(w.grad_q, w.grad_q + w.padded * w.columns, 0.0F);
}

// grad_k or grad_v of one key block: a long reduction over queries; a group's heads add up in f32.
template <class T>
void key_gradient(const AttentionBackwardTask& t, const BackwardBuffers& w, int64_t key, int64_t runs,
                  int64_t head, const float* a, const float* b, float scale, float* sums, T* out) {
  const int64_t rows = std::min(kKeyBlock, t.visibility.keys - key);
  multiply(rows, w.columns, {a, w.stride, 1, b, w.columns, t.visibility.runs, runs},
           [&](int64_t row, int64_t column, F32Vec c) {
             float* at = sums + (key + row) * w.columns + column;
             c = hn::Mul(c, hn::Set(F32Tag(), scale));
             if (head > 0) c = hn::Add(c, hn::LoadU(F32Tag(), at));
             hn::StoreU(c, F32Tag(), at);
             if (head + 1 < t.group || column >= t.head_size) return;
             store_first(c, out + (key + row) * t.kv_stride + column,
                         std::min(lanes(), t.head_size - column));
           });
}

template <class T>
void backward_keys(const AttentionBackwardTask& t, const BackwardBuffers& w, int64_t key, int64_t head) {
  const F32Tag d;
  const hn::Rebind<int32_t, F32Tag> di;
  const Visibility& v = t.visibility;
  const int64_t rows = std::min(kKeyBlock, v.keys - key), k = key / kBoundsBlock;
  const int64_t runs = make_runs(v, w.padded / kKeyBlock, kKeyBlock, [&](int64_t q) {
    return any_visible(v, 2 * q, k) || any_visible(v, 2 * q, k + 1) || any_visible(v, 2 * q + 1, k) ||
           any_visible(v, 2 * q + 1, k + 1);
  });
  const Run head_columns{0, t.head_size}, key_rows{0, rows};
  copy_rows(static_cast<const T*>(t.k) + key * t.kv_stride, t.kv_stride, rows, rows, t.head_size, w.key_rows);
  copy_rows(static_cast<const T*>(t.v) + key * t.kv_stride, t.kv_stride, rows, rows, t.head_size,
            w.value_rows);
  const F32Vec factor = hn::Set(d, t.scale * kLog2E);
  for_blocks(v.runs, runs, [&](int64_t query) {
    const int64_t panel = query * t.head_size;
    multiply(rows, kKeyBlock, {w.key_rows, w.columns, 1, w.queries + panel, kKeyBlock, &head_columns, 1},
             [&](int64_t row, int64_t column, F32Vec c) {
               const int64_t q = query + column;
               const auto mask = between(hn::LoadU(di, w.visible.doc_start + q),
                                         hn::Set(di, w.visible.key_position[key + row]),
                                         hn::LoadU(di, w.visible.query_position + q));
               const F32Vec p = power_of_two(hn::MulSub(c, factor, hn::LoadU(d, w.lse2 + q)));
               hn::StoreU(hn::IfThenElseZero(mask, p), d, w.probabilities + row * w.stride + q);
             });
    multiply(rows, kKeyBlock, {w.value_rows, w.columns, 1, w.grads + panel, kKeyBlock, &head_columns, 1},
             [&](int64_t row, int64_t column, F32Vec c) {
               const int64_t q = query + column;
               const F32Vec p = hn::LoadU(d, w.probabilities + row * w.stride + q);
               hn::StoreU(hn::Mul(hn::Sub(c, hn::LoadU(d, w.delta + q)), p), d,
                          w.grad_scores + row * w.stride + q);
             });
  });
  key_gradient(t, w, key, runs, head, w.probabilities, w.grad_rows, 1.0F, w.grad_v,
               static_cast<T*>(t.grad_v));
  key_gradient(t, w, key, runs, head, w.grad_scores, w.query_rows, t.scale, w.grad_k,
               static_cast<T*>(t.grad_k));
  for_blocks(v.runs, runs, [&](int64_t query) {
    multiply(kKeyBlock, w.columns, {w.grad_scores + query, 1, w.stride, w.key_rows, w.columns, &key_rows, 1},
             [&](int64_t row, int64_t column, F32Vec c) {
               float* at = w.grad_q + (query + row) * w.columns + column;
               hn::StoreU(hn::Add(c, hn::LoadU(d, at)), d, at);
             });
  });
}

template <class T>
void backward_heads(const AttentionBackwardTask& t) {
  const BackwardBuffers w = backward_buffers(t);
  for (int64_t head = 0; head < t.group; ++head) {
    prepare_query_head<T>(t, w, head);
    for (int64_t key = 0; key < t.visibility.keys; key += kKeyBlock) backward_keys<T>(t, w, key, head);
    T* grad_q = static_cast<T*>(t.grad_q) + head * t.head_size;
    for (int64_t row = 0; row < t.visibility.queries; ++row) {
      for (int64_t c = 0; c < t.head_size; ++c) {
        store_scalar(t.scale * w.grad_q[row * w.columns + c], grad_q + row * t.q_stride + c);
      }
    }
  }
}
void backward_f32(const AttentionBackwardTask& t) { backward_heads<float>(t); }
void backward_bf16(const AttentionBackwardTask& t) { backward_heads<Bf16>(t); }

}  // namespace ingot::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::backend::cpu {

HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_bf16);
HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_bf16);

namespace {

int64_t forward_bytes(int64_t queries, int64_t keys, int64_t head_size) {
  const int64_t t = padded_to_panels(queries), s = padded_to_panels(keys), d = (head_size + 15) / 16 * 16;
  return 4 * (2 * s * d + kQueryBlock * d + kQueryBlock * (s + 16) + 2 * t + s);
}
int64_t backward_bytes(int64_t queries, int64_t keys, int64_t head_size) {
  const int64_t t = padded_to_panels(queries), s = padded_to_panels(keys), d = (head_size + 15) / 16 * 16;
  return 4 * (5 * t * d + 2 * s * d + 2 * kKeyBlock * (d + t + 16) + 4 * t + s);
}

const AttentionKernels kF32Attention{[](const AttentionForwardTask& t) {
                                       HWY_DYNAMIC_DISPATCH(forward_f32)
                                       (t);
                                     },
                                     [](const AttentionBackwardTask& t) {
                                       HWY_DYNAMIC_DISPATCH(backward_f32)
                                       (t);
                                     },
                                     forward_bytes, backward_bytes};
const AttentionKernels kBf16Attention{[](const AttentionForwardTask& t) {
                                        HWY_DYNAMIC_DISPATCH(forward_bf16)
                                        (t);
                                      },
                                      [](const AttentionBackwardTask& t) {
                                        HWY_DYNAMIC_DISPATCH(backward_bf16)
                                        (t);
                                      },
                                      forward_bytes, backward_bytes};

}  // namespace

const AttentionKernels& portable_attention(bool bf16) { return bf16 ? kBf16Attention : kF32Attention; }

}  // namespace ingot::backend::cpu
#endif
