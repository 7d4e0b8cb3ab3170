#pragma once
// Inside of attention.h: one head's work, in the instructions of this machine. Plain pointers only
// (products.h says why). D columns of q, k, v, o lie at the head's offset; strides in elements.

#include <cstddef>
#include <cstdint>

namespace ingot::backend::cpu {

inline constexpr int64_t kQueryBlock = 32;  // rows of scores that forward holds
inline constexpr int64_t kKeyBlock = 64;    // keys of one panel, and of one step of backward

// Which keys a query sees: doc_start[t] <= position[s] <= position[t].
struct Visibility {
  const int32_t* position = nullptr;   // [T]
  const int32_t* doc_start = nullptr;  // [T]
  bool ascending = false;  // position[t] = t, and doc_start never falls: whole blocks may be skipped
};

struct AttentionForwardTask {
  int64_t seq_len = 0, head_size = 0;
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
  int64_t seq_len = 0, head_size = 0, group = 1;
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
  int64_t (*forward_scratch_bytes)(int64_t seq_len, int64_t head_size);
  int64_t (*backward_scratch_bytes)(int64_t seq_len, int64_t head_size);
};

extern const AttentionKernels kNativeBf16Attention;  // attention_bf16.cc, where the machine has avx512_bf16
// What attention_bf16.cc needs, stated for every machine: a plan may be made on another one. Internal
// linkage: a copy made with its instructions must not serve others.
static constexpr int64_t padded_to_panels(int64_t seq_len) {
  return (seq_len + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
}
[[maybe_unused]] static constexpr int64_t native_forward_bytes(int64_t seq_len, int64_t head_size) {
  const int64_t t = padded_to_panels(seq_len), d = (head_size + 15) / 16 * 16;
  return t * d * 4 + kQueryBlock * ((t + 16) * 4 + (t + 32) * 2);
}
[[maybe_unused]] static constexpr int64_t native_backward_bytes(int64_t seq_len, int64_t head_size) {
  const int64_t t = padded_to_panels(seq_len), d = (head_size + 15) / 16 * 16;
  return t * d * 8 + kKeyBlock * (t + 32) * 4 + kKeyBlock / 2 * ((t + 16) * 4 + d * 4) + t * (3 * d * 4 + 8);
}
const AttentionKernels& portable_attention(bool bf16);  // attention_simd.cc

}  // namespace ingot::backend::cpu
