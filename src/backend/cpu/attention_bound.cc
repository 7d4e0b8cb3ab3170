// Attention, rotary embedding and the cache of keys and values.

#include "backend/cpu/bound_node.h"
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/elementwise.h"

namespace ingot::backend::cpu {
namespace {

AttentionShape shape_of(const KernelArgs& args, const TensorView& q, const TensorView& kv) {
  const int64_t head_size = args.attributes->head_dim;
  return {.batch = q.shape[0],
          .seq_len = q.shape[1],
          .heads = q.shape.last() / head_size,
          .kv_heads = kv.shape.last() / head_size,
          .head_size = head_size,
          .keys = kv.shape[1]};
}

// What forward and gradient read alike.
AttentionArgs attention_of(const KernelArgs& args) {
  AttentionArgs attention;
  attention.shape = shape_of(args, args.inputs[0], args.inputs[1]);
  attention.scale = static_cast<float>(args.attributes->scale);
  attention.q = args.inputs[0];
  attention.k = args.inputs[1];
  attention.v = args.inputs[2];
  attention.workspace = args.workspace;
  return attention;
}

}  // namespace

void run_attention(const KernelArgs& args, void* state) {
  AttentionArgs attention = attention_of(args);
  attention.position = args.inputs[3];
  attention.key_position = args.inputs[4];
  attention.doc_start = args.inputs[5];
  attention.o = args.outputs[0];
  attention.lse = args.outputs[1];
  attention_forward(cpu_of(args, state), attention);
}

void run_attention_grad(const KernelArgs& args, void* state) {
  AttentionArgs attention = attention_of(args);
  attention.o = args.inputs[3];
  attention.lse = args.inputs[4];
  attention.position = args.inputs[6];
  attention.key_position = args.inputs[7];
  attention.doc_start = args.inputs[8];
  attention_backward(cpu_of(args, state), attention,
                     {.grad_o = args.inputs[5],
                      .grad_q = args.outputs[0],
                      .grad_k = args.outputs[1],
                      .grad_v = args.outputs[2]});
}

void run_attention_merge(const KernelArgs& args, void* state) {
  merge_attention(cpu_of(args, state), {.first = args.inputs[0],
                                        .second = args.inputs[2],
                                        .first_lse = args.inputs[1],
                                        .second_lse = args.inputs[3],
                                        .o = args.outputs[0],
                                        .lse = args.outputs[1]});
}

void run_rotary(const KernelArgs& args, void* state) {
  auto& frequencies = static_cast<BoundNode*>(state)->inverse_frequencies;
  const auto size = static_cast<int64_t>(frequencies.size());
  rotary(
      cpu_of(args, state),
      {.x = args.inputs[0],
       .head_size = args.attributes->head_dim,
       .inv_freq = {.data = frequencies.data(), .dtype = tensor::DType::kF32, .shape = tensor::Shape{size}},
       .position = args.inputs[1],
       .doc_start = args.attributes->document_positions ? optional(args.inputs, 2) : TensorView{},
       .sign = args.attributes->inverse ? -1.0F : 1.0F,
       .y = args.outputs[0]});
}

void run_cache_append(const KernelArgs& args, void* state) {
  cache_append(cpu_of(args, state), {.k = args.inputs[0],
                                     .v = args.inputs[1],
                                     .position = args.inputs[2],
                                     .key_cache = args.outputs[0],
                                     .value_cache = args.outputs[1]});
}

void run_attention_cached(const KernelArgs& args, void* state) {
  CachedAttentionArgs attention;
  attention.shape = shape_of(args, args.inputs[0], args.inputs[1]);
  attention.scale = static_cast<float>(args.attributes->scale);
  attention.q = args.inputs[0];
  attention.key_cache = args.inputs[1];
  attention.value_cache = args.inputs[2];
  attention.position = args.inputs[3];
  attention.o = args.outputs[0];
  attention.workspace = args.workspace;
  cached_attention(cpu_of(args, state), attention);
}

}  // namespace ingot::backend::cpu
