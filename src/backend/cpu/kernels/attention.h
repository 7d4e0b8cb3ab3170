#pragma once
// Causal attention with grouped queries: query head h reads key-value head h / (H / G). [T, T] is never held:
// forward holds the scores of 32 queries, backward those of 64 keys. Query t sees key s when
//   doc_start[t] <= key_position[s] <= position[t];
// all are data (program.md section 5): keys may be those of other ranks, in any order. Blocks in which no
// query sees a key are skipped, whatever the order.

#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu {

struct AttentionShape {
  int64_t batch = 1;       // B
  int64_t seq_len = 1;     // T of the queries
  int64_t heads = 1;       // H, a multiple of G
  int64_t kv_heads = 1;    // G
  int64_t head_size = 64;  // D: even, at most 128; 32, 64 and 128 are fast
  int64_t keys = 0;        // S, T of keys and values; 0: as many as queries
  int64_t key_len() const { return keys == 0 ? seq_len : keys; }
};

struct AttentionArgs {
  AttentionShape shape;
  float scale = 1;                    // usually 1/√D
  tensor::TensorView q;               // [B, T, H·D] f32 or bf16
  tensor::TensorView k;               // [B, S, G·D]
  tensor::TensorView v;               // [B, S, G·D]
  int64_t q_stride = 0;               // elements between rows of q, k, v where they lie side by side in one
  int64_t kv_stride = 0;              //   [B, T, (H+2G)·D]; 0: contiguous
  tensor::TensorView position;        // [B, T] i32, optional: 0 … T−1
  tensor::TensorView key_position{};  // [B, S] i32, optional: those of the queries
  tensor::TensorView doc_start;       // [B, T] i32, optional: 0
  tensor::TensorView o;               // [B, T, H·D] output of forward, input of backward
  tensor::TensorView lse;  // [B, T, H] f32: log Σ exp(scale · q·k), −inf where a query sees nothing
  Workspace workspace;
};
int64_t attention_forward_workspace_bytes(tensor::DType dtype, const AttentionShape& shape, int threads);
void attention_forward(const Cpu& cpu, const AttentionArgs& args);

struct AttentionGradients {
  tensor::TensorView grad_o;  // [B, T, H·D]
  tensor::TensorView grad_q;  // [B, T, H·D]; with the strides of q
  tensor::TensorView grad_k;  // [B, S, G·D]; summed over the group's query heads in order
  tensor::TensorView grad_v;  // [B, S, G·D]
};
int64_t attention_backward_workspace_bytes(tensor::DType dtype, const AttentionShape& shape, int threads);
// o and lse may be of more keys than these: then the gradients are those of these keys' share.
void attention_backward(const Cpu& cpu, const AttentionArgs& args, const AttentionGradients& gradients);

// Attention to two sets of keys together, from what it gave for each alone.
struct AttentionMergeArgs {
  tensor::TensorView first, second;          // [B, T, H·D] f32 or bf16
  tensor::TensorView first_lse, second_lse;  // [B, T, H] f32
  tensor::TensorView o;                      // [B, T, H·D] f32 or bf16
  tensor::TensorView lse;                    // [B, T, H] f32
};
void merge_attention(const Cpu& cpu, const AttentionMergeArgs& args);

// Copies rows k and v [B, T, G·D] into caches [B, S, G·D] (the same type) at row position[b, t]; a position
// outside [0, S) is our bug.
struct CacheAppendArgs {
  tensor::TensorView k, v;
  tensor::TensorView position;  // [B, T] i32
  tensor::TensorView key_cache, value_cache;
};
void cache_append(const Cpu& cpu, const CacheAppendArgs& args);

// Attention of T query rows on caches whose row s holds position s: query t sees rows doc_start[t] …
// position[t].
struct CachedAttentionArgs {
  AttentionShape shape;  // seq_len = T of the queries
  float scale = 1;
  tensor::TensorView q;                       // [B, T, H·D] f32 or bf16
  tensor::TensorView key_cache, value_cache;  // [B, S, G·D] q's type
  tensor::TensorView position;                // [B, T] i32
  tensor::TensorView doc_start;               // [B, T] i32, optional: 0
  tensor::TensorView o;                       // [B, T, H·D]
  Workspace workspace;
};
int64_t cached_attention_workspace_bytes(int64_t cache_rows, int threads);
void cached_attention(const Cpu& cpu, const CachedAttentionArgs& args);

}  // namespace ingot::backend::cpu
