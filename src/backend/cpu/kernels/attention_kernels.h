#pragma once
// Inside of attention.h: one head's work, in the instructions of this machine. Plain pointers only
// (products.h says why). D columns of q, k, v, o lie at the head's offset; strides in elements.

#include <cstddef>
#include <cstdint>

namespace ingot::backend::cpu {

inline constexpr int64_t kQueryBlock = 32;  // rows of scores that forward holds
inline constexpr int64_t kKeyBlock = 64;    // keys of one panel, and of one step of backward
inline constexpr int64_t kBoundsBlock = 32;

// Least and greatest of 32 queries or keys; of a block that begins behind the last nothing is visible.
struct QueryBounds {
  int32_t position_low, position_high, doc_start_low, doc_start_high;
};
struct KeyBounds {
  int32_t low, high;
};

// A stretch of keys or queries, multiples of 32.
struct Run {
  int64_t begin, end;
};

// Which keys a query sees: doc_start[t] <= key_position[s] <= query_position[t].
struct Visibility {
  int64_t queries = 0, keys = 0;              // T, S
  const int32_t* query_position = nullptr;    // [T]
  const int32_t* key_position = nullptr;      // [S]
  const int32_t* doc_start = nullptr;         // [T]
  const QueryBounds* query_bounds = nullptr;  // [T padded to panels / 32]
  const KeyBounds* key_bounds = nullptr;      // [S padded to panels / 32]
  Run* runs = nullptr;                        // room for as many as there can be in a row or column of blocks
};

struct AttentionForwardTask {
  int64_t head_size = 0;
  float scale = 1;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t q_stride = 0, kv_stride = 0, o_stride = 0, lse_stride = 0;
  Visibility visibility;
  void* o = nullptr;
  float* lse = nullptr;
  std::byte* scratch = nullptr;
};

// All query heads of one key-value head, in order. Their q, o, grad_o, grad_q lie head_size apart, their lse
// 1 apart.
struct AttentionBackwardTask {
  int64_t head_size = 0, group = 1;
  float scale = 1;
  const void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *grad_o = nullptr;
  const float* lse = nullptr;
  int64_t q_stride = 0, kv_stride = 0, o_stride = 0, lse_stride = 0;
  Visibility visibility;
  void *grad_q = nullptr, *grad_k = nullptr, *grad_v = nullptr;
  std::byte* scratch = nullptr;
};

struct AttentionKernels {
  void (*forward)(const AttentionForwardTask&);
  void (*backward)(const AttentionBackwardTask&);
  int64_t (*forward_scratch_bytes)(int64_t queries, int64_t keys, int64_t head_size);
  int64_t (*backward_scratch_bytes)(int64_t queries, int64_t keys, int64_t head_size);
};

// What follows has internal linkage: a copy made with the instructions of attention_bf16.cc must not serve
// others.
[[maybe_unused]] static constexpr int64_t padded_to_panels(int64_t seq_len) {
  return (seq_len + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
}

// Whether queries [32 q, ..) see any of keys [32 k, ..), and whether each sees each.
[[maybe_unused]] static bool any_visible(const Visibility& v, int64_t q, int64_t k) {
  const QueryBounds& query = v.query_bounds[q];
  const KeyBounds& key = v.key_bounds[k];
  return key.low <= query.position_high && key.high >= query.doc_start_low;
}
[[maybe_unused]] static bool all_visible(const Visibility& v, int64_t q, int64_t k) {
  const QueryBounds& query = v.query_bounds[q];
  const KeyBounds& key = v.key_bounds[k];
  return key.high <= query.position_low && key.low >= query.doc_start_high &&
         (k + 1) * kBoundsBlock <= v.keys && (q + 1) * kBoundsBlock <= v.queries;
}

// The stretches of blocks for which visible(i) holds, i in [0, count), each block `size` long. Writes
// v.runs.
template <class Visible>
[[maybe_unused]] static int64_t make_runs(const Visibility& v, int64_t count, int64_t size,
                                          const Visible& visible) {
  int64_t runs = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!visible(i)) continue;
    if (runs > 0 && v.runs[runs - 1].end == i * size) {
      v.runs[runs - 1].end += size;
    } else {
      v.runs[runs++] = {i * size, (i + 1) * size};
    }
  }
  return runs;
}

extern const AttentionKernels kNativeBf16Attention;  // attention_bf16.cc, where the machine has avx512_bf16
// What attention_bf16.cc needs, stated for every machine: a plan may be made on another one.
[[maybe_unused]] static constexpr int64_t native_forward_bytes(int64_t, int64_t keys, int64_t head_size) {
  const int64_t s = padded_to_panels(keys), d = (head_size + 15) / 16 * 16;
  return s * d * 4 + kQueryBlock * ((s + 16) * 4 + (s + 32) * 2);
}
[[maybe_unused]] static constexpr int64_t native_backward_bytes(int64_t queries, int64_t keys,
                                                                int64_t head_size) {
  const int64_t t = padded_to_panels(queries), s = padded_to_panels(keys), d = (head_size + 15) / 16 * 16;
  return t * d * 8 + kKeyBlock * (t + 32) * 4 + kKeyBlock / 2 * ((t + 16) * 4 + d * 4) + t * (d * 4 + 8) +
         s * 2 * d * 4;
}
const AttentionKernels& portable_attention(bool bf16);  // attention_simd.cc

}  // namespace ingot::backend::cpu
