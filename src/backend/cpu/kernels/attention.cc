#include "backend/cpu/kernels/attention.h"

#include <algorithm>

#include "backend/cpu/kernels/attention_kernels.h"
#include "base/check.h"

namespace ingot::backend::cpu {
namespace {

using tensor::DType;
using tensor::TensorView;

const AttentionKernels& attention_kernels(const Cpu& cpu, DType dtype) {
#if INGOT_AVX512_BF16
  if (dtype == DType::kBF16 && cpu.native_bf16) return kNativeBf16Attention;
#else
  static_cast<void>(cpu);
#endif
  return portable_attention(dtype == DType::kBF16);
}

// Default positions and document starts, then one scratch area a thread.
int64_t visibility_bytes(const AttentionShape& shape) { return tensor::align_up(2 * shape.seq_len * 4); }

int64_t forward_scratch_bytes(const AttentionShape& shape) {
  return tensor::align_up(
      std::max(native_forward_bytes(shape.seq_len, shape.head_size),
               portable_attention(true).forward_scratch_bytes(shape.seq_len, shape.head_size)));
}
int64_t backward_scratch_bytes(const AttentionShape& shape) {
  return tensor::align_up(
      std::max(native_backward_bytes(shape.seq_len, shape.head_size),
               portable_attention(true).backward_scratch_bytes(shape.seq_len, shape.head_size)));
}

struct Layout {
  int64_t q_stride, kv_stride, o_stride, group, element;
};

Layout check_and_lay_out(const AttentionArgs& args) {
  const AttentionShape& s = args.shape;
  INGOT_CHECK(s.head_size % 2 == 0 && s.head_size >= 2 && s.head_size <= 128,
              "head size {} is not even, 2 to 128", s.head_size);
  INGOT_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "{} heads are no multiple of {} key-value heads",
              s.heads, s.kv_heads);
  INGOT_CHECK(args.q.dtype == args.k.dtype && args.q.dtype == args.v.dtype && args.q.dtype == args.o.dtype,
              "q, k, v, o differ in type");
  INGOT_CHECK(args.q.dtype == DType::kF32 || args.q.dtype == DType::kBF16, "{} is neither f32 nor bf16",
              tensor::name_of(args.q.dtype));
  const int64_t width = s.heads * s.head_size;
  return {args.q_stride == 0 ? width : args.q_stride,
          args.kv_stride == 0 ? s.kv_heads * s.head_size : args.kv_stride, width, s.heads / s.kv_heads,
          tensor::size_of(args.q.dtype)};
}

// Fills the defaults at the start of the workspace, and returns what is left of it.
std::byte* fill_defaults(const AttentionArgs& args, int32_t*& position, int32_t*& doc_start) {
  position = reinterpret_cast<int32_t*>(args.workspace.data());
  doc_start = position + args.shape.seq_len;
  for (int32_t t = 0; t < args.shape.seq_len; ++t) {
    position[t] = t;
    doc_start[t] = 0;
  }
  return args.workspace.data() + visibility_bytes(args.shape);
}

Visibility visibility_of(const AttentionArgs& args, int64_t sample, const int32_t* position,
                         const int32_t* doc_start) {
  const int64_t n = args.shape.seq_len;
  Visibility v{position, doc_start, true};
  if (args.position.data != nullptr) {
    v.position = args.position.as<const int32_t>() + sample * n;
    v.ascending = std::equal(v.position, v.position + n, position);
  }
  if (args.doc_start.data != nullptr) {
    v.doc_start = args.doc_start.as<const int32_t>() + sample * n;
    v.ascending = v.ascending && std::is_sorted(v.doc_start, v.doc_start + n);
  }
  return v;
}

const std::byte* at(const TensorView& view, int64_t index, int64_t element) {
  return view.as<const std::byte>() + index * element;
}
std::byte* mutable_at(const TensorView& view, int64_t index, int64_t element) {
  return view.as<std::byte>() + index * element;
}

}  // namespace

int64_t attention_forward_workspace_bytes(DType, const AttentionShape& shape, int threads) {
  return visibility_bytes(shape) + threads * forward_scratch_bytes(shape);
}

int64_t attention_backward_workspace_bytes(DType, const AttentionShape& shape, int threads) {
  return visibility_bytes(shape) + threads * backward_scratch_bytes(shape);
}

void attention_forward(const Cpu& cpu, const AttentionArgs& args) {
  const AttentionShape& s = args.shape;
  const Layout l = check_and_lay_out(args);
  const int64_t needed = attention_forward_workspace_bytes(args.q.dtype, s, cpu.pool.threads());
  INGOT_CHECK(static_cast<int64_t>(args.workspace.size()) >= needed, "workspace of {} bytes, {} needed",
              args.workspace.size(), needed);
  const AttentionKernels& kernels = attention_kernels(cpu, args.q.dtype);
  int32_t *position = nullptr, *doc_start = nullptr;
  std::byte* scratch = fill_defaults(args, position, doc_start);
  cpu.pool.parallel_for(s.batch * s.heads, [&](int64_t tile, int thread) {
    const int64_t sample = tile / s.heads, head = tile % s.heads, row = sample * s.seq_len;
    const int64_t q_at = row * l.q_stride + head * s.head_size;
    const int64_t kv_at = row * l.kv_stride + head / l.group * s.head_size;
    kernels.forward({.seq_len = s.seq_len,
                     .head_size = s.head_size,
                     .scale = args.scale,
                     .q = at(args.q, q_at, l.element),
                     .k = at(args.k, kv_at, l.element),
                     .v = at(args.v, kv_at, l.element),
                     .q_stride = l.q_stride,
                     .kv_stride = l.kv_stride,
                     .o_stride = l.o_stride,
                     .lse_stride = s.heads,
                     .visibility = visibility_of(args, sample, position, doc_start),
                     .o = mutable_at(args.o, row * l.o_stride + head * s.head_size, l.element),
                     .lse = args.lse.as<float>() + row * s.heads + head,
                     .scratch = scratch + thread * forward_scratch_bytes(s)});
  });
}

void attention_backward(const Cpu& cpu, const AttentionArgs& args, const AttentionGradients& gradients) {
  const AttentionShape& s = args.shape;
  const Layout l = check_and_lay_out(args);
  const int64_t needed = attention_backward_workspace_bytes(args.q.dtype, s, cpu.pool.threads());
  INGOT_CHECK(static_cast<int64_t>(args.workspace.size()) >= needed, "workspace of {} bytes, {} needed",
              args.workspace.size(), needed);
  const AttentionKernels& kernels = attention_kernels(cpu, args.q.dtype);
  int32_t *position = nullptr, *doc_start = nullptr;
  std::byte* scratch = fill_defaults(args, position, doc_start);
  cpu.pool.parallel_for(s.batch * s.kv_heads, [&](int64_t tile, int thread) {
    const int64_t sample = tile / s.kv_heads, head = tile % s.kv_heads, row = sample * s.seq_len;
    const int64_t q_at = row * l.q_stride + head * l.group * s.head_size;
    const int64_t kv_at = row * l.kv_stride + head * s.head_size;
    const int64_t o_at = row * l.o_stride + head * l.group * s.head_size;
    kernels.backward({.seq_len = s.seq_len,
                      .head_size = s.head_size,
                      .group = l.group,
                      .scale = args.scale,
                      .q = at(args.q, q_at, l.element),
                      .k = at(args.k, kv_at, l.element),
                      .v = at(args.v, kv_at, l.element),
                      .o = at(args.o, o_at, l.element),
                      .grad_o = at(gradients.grad_o, o_at, l.element),
                      .lse = args.lse.as<const float>() + row * s.heads + head * l.group,
                      .q_stride = l.q_stride,
                      .kv_stride = l.kv_stride,
                      .o_stride = l.o_stride,
                      .lse_stride = s.heads,
                      .visibility = visibility_of(args, sample, position, doc_start),
                      .grad_q = mutable_at(gradients.grad_q, q_at, l.element),
                      .grad_k = mutable_at(gradients.grad_k, kv_at, l.element),
                      .grad_v = mutable_at(gradients.grad_v, kv_at, l.element),
                      .scratch = scratch + thread * backward_scratch_bytes(s)});
  });
}

}  // namespace ingot::backend::cpu
