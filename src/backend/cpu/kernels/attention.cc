#include "backend/cpu/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/attention_kernels.h"
#include "backend/cpu/kernels/span_operations.h"
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

// Default positions and document starts, then one area a thread: what the kernels hold, and the bounds of
// blocks.
int64_t defaults_bytes(const AttentionShape& shape) {
  return tensor::align_up(2 * shape.seq_len * int64_t{sizeof(int32_t)});
}

// Of one head's blocks.
struct BoundsLayout {
  int64_t queries, keys, runs;  // of each how many
  explicit BoundsLayout(const AttentionShape& shape)
      : queries(padded_to_panels(shape.seq_len) / kBoundsBlock),
        keys(padded_to_panels(shape.key_len()) / kBoundsBlock),
        runs((std::max(queries, keys) + 1) / 2) {}
  int64_t bytes() const {
    return tensor::align_up(queries * int64_t{sizeof(QueryBounds)} + keys * int64_t{sizeof(KeyBounds)} +
                            runs * int64_t{sizeof(Run)});
  }
};

int64_t forward_scratch_bytes(const AttentionShape& s) {
  return BoundsLayout(s).bytes() +
         tensor::align_up(
             std::max(native_forward_bytes(s.seq_len, s.key_len(), s.head_size),
                      portable_attention(true).forward_scratch_bytes(s.seq_len, s.key_len(), s.head_size)));
}
int64_t backward_scratch_bytes(const AttentionShape& s) {
  return BoundsLayout(s).bytes() +
         tensor::align_up(
             std::max(native_backward_bytes(s.seq_len, s.key_len(), s.head_size),
                      portable_attention(true).backward_scratch_bytes(s.seq_len, s.key_len(), s.head_size)));
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
  INGOT_CHECK(s.key_len() == s.seq_len || args.key_position.data != nullptr,
              "{} keys for {} queries, and no positions of theirs", s.key_len(), s.seq_len);
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
std::byte* fill_defaults(const AttentionArgs& args) {
  auto* position = reinterpret_cast<int32_t*>(args.workspace.data());
  int32_t* doc_start = position + args.shape.seq_len;
  for (int32_t t = 0; t < args.shape.seq_len; ++t) {
    position[t] = t;
    doc_start[t] = 0;
  }
  return args.workspace.data() + defaults_bytes(args.shape);
}

void fill_bounds(const Visibility& v, QueryBounds* queries, KeyBounds* keys, const BoundsLayout& layout) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  for (int64_t block = 0; block < layout.queries; ++block) {
    QueryBounds bounds{kMost, kLeast, kMost, kLeast};
    for (int64_t t = block * kBoundsBlock; t < std::min(v.queries, (block + 1) * kBoundsBlock); ++t) {
      bounds.position_low = std::min(bounds.position_low, v.query_position[t]);
      bounds.position_high = std::max(bounds.position_high, v.query_position[t]);
      bounds.doc_start_low = std::min(bounds.doc_start_low, v.doc_start[t]);
      bounds.doc_start_high = std::max(bounds.doc_start_high, v.doc_start[t]);
    }
    queries[block] = bounds;
  }
  for (int64_t block = 0; block < layout.keys; ++block) {
    KeyBounds bounds{kMost, kLeast};
    for (int64_t s = block * kBoundsBlock; s < std::min(v.keys, (block + 1) * kBoundsBlock); ++s) {
      bounds.low = std::min(bounds.low, v.key_position[s]);
      bounds.high = std::max(bounds.high, v.key_position[s]);
    }
    keys[block] = bounds;
  }
}

// Of one sample; the bounds of its blocks are written to `scratch`, and the rest of that is left to the
// kernel.
Visibility visibility_of(const AttentionArgs& args, int64_t sample, std::byte*& scratch) {
  const BoundsLayout layout(args.shape);
  const auto* defaults = reinterpret_cast<const int32_t*>(args.workspace.data());
  const auto rows = [&](const TensorView& given, int64_t count, const int32_t* otherwise) {
    return given.data == nullptr ? otherwise : given.as<const int32_t>() + sample * count;
  };
  Visibility v;
  v.queries = args.shape.seq_len;
  v.keys = args.shape.key_len();
  v.query_position = rows(args.position, v.queries, defaults);
  v.key_position = rows(args.key_position, v.keys, v.query_position);
  v.doc_start = rows(args.doc_start, v.queries, defaults + v.queries);
  auto* queries = reinterpret_cast<QueryBounds*>(scratch);
  auto* keys = reinterpret_cast<KeyBounds*>(queries + layout.queries);
  fill_bounds(v, queries, keys, layout);
  v.query_bounds = queries;
  v.key_bounds = keys;
  v.runs = reinterpret_cast<Run*>(keys + layout.keys);
  scratch += layout.bytes();
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
  return defaults_bytes(shape) + threads * forward_scratch_bytes(shape);
}

int64_t attention_backward_workspace_bytes(DType, const AttentionShape& shape, int threads) {
  return defaults_bytes(shape) + threads * backward_scratch_bytes(shape);
}

void attention_forward(const Cpu& cpu, const AttentionArgs& args) {
  const AttentionShape& s = args.shape;
  const Layout l = check_and_lay_out(args);
  const int64_t needed = attention_forward_workspace_bytes(args.q.dtype, s, cpu.pool.threads());
  INGOT_CHECK(static_cast<int64_t>(args.workspace.size()) >= needed, "workspace of {} bytes, {} needed",
              args.workspace.size(), needed);
  const AttentionKernels& kernels = attention_kernels(cpu, args.q.dtype);
  std::byte* areas = fill_defaults(args);
  cpu.pool.parallel_for(s.batch * s.heads, [&](int64_t tile, int thread) {
    const int64_t sample = tile / s.heads, head = tile % s.heads, row = sample * s.seq_len;
    const int64_t q_at = row * l.q_stride + head * s.head_size;
    const int64_t kv_at = sample * s.key_len() * l.kv_stride + head / l.group * s.head_size;
    std::byte* scratch = areas + thread * forward_scratch_bytes(s);
    const Visibility visibility = visibility_of(args, sample, scratch);
    kernels.forward({.head_size = s.head_size,
                     .scale = args.scale,
                     .q = at(args.q, q_at, l.element),
                     .k = at(args.k, kv_at, l.element),
                     .v = at(args.v, kv_at, l.element),
                     .q_stride = l.q_stride,
                     .kv_stride = l.kv_stride,
                     .o_stride = l.o_stride,
                     .lse_stride = s.heads,
                     .visibility = visibility,
                     .o = mutable_at(args.o, row * l.o_stride + head * s.head_size, l.element),
                     .lse = args.lse.as<float>() + row * s.heads + head,
                     .scratch = scratch});
  });
}

void attention_backward(const Cpu& cpu, const AttentionArgs& args, const AttentionGradients& gradients) {
  const AttentionShape& s = args.shape;
  const Layout l = check_and_lay_out(args);
  const int64_t needed = attention_backward_workspace_bytes(args.q.dtype, s, cpu.pool.threads());
  INGOT_CHECK(static_cast<int64_t>(args.workspace.size()) >= needed, "workspace of {} bytes, {} needed",
              args.workspace.size(), needed);
  const AttentionKernels& kernels = attention_kernels(cpu, args.q.dtype);
  std::byte* areas = fill_defaults(args);
  cpu.pool.parallel_for(s.batch * s.kv_heads, [&](int64_t tile, int thread) {
    const int64_t sample = tile / s.kv_heads, head = tile % s.kv_heads, row = sample * s.seq_len;
    const int64_t q_at = row * l.q_stride + head * l.group * s.head_size;
    const int64_t kv_at = sample * s.key_len() * l.kv_stride + head * s.head_size;
    const int64_t o_at = row * l.o_stride + head * l.group * s.head_size;
    std::byte* scratch = areas + thread * backward_scratch_bytes(s);
    const Visibility visibility = visibility_of(args, sample, scratch);
    kernels.backward({.head_size = s.head_size,
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
                      .visibility = visibility,
                      .grad_q = mutable_at(gradients.grad_q, q_at, l.element),
                      .grad_k = mutable_at(gradients.grad_k, kv_at, l.element),
                      .grad_v = mutable_at(gradients.grad_v, kv_at, l.element),
                      .scratch = scratch});
  });
}

// Each set's output weighs as its sum of exponentials: exp(lse − lse of both).
void merge_attention(const Cpu& cpu, const AttentionMergeArgs& args) {
  constexpr int64_t kRows = 256;
  const int64_t rows = args.lse.elements(), head_size = rows == 0 ? 0 : args.o.elements() / rows;
  INGOT_CHECK(args.first.elements() == args.o.elements() && args.second.elements() == args.o.elements() &&
                  args.first_lse.elements() == rows && args.second_lse.elements() == rows,
              "outputs {} and {} for {}", args.first.shape.to_string(), args.second.shape.to_string(),
              args.o.shape.to_string());
  const auto bit = [](const TensorView& view, unsigned value) {
    return view.dtype == DType::kBF16 ? value : 0U;
  };
  const unsigned types = bit(args.first, 1) | bit(args.second, 2) | bit(args.o, 4);
  const auto row_of = [&](const TensorView& view, int64_t row) {
    return mutable_at(view, row * head_size, tensor::size_of(view.dtype));
  };
  cpu.pool.parallel_for((rows + kRows - 1) / kRows, [&](int64_t tile, int) {
    for (int64_t row = tile * kRows; row < std::min(rows, (tile + 1) * kRows); ++row) {
      const float a = args.first_lse.as<const float>()[row], b = args.second_lse.as<const float>()[row];
      const float greatest = std::max(a, b);
      const bool sees_nothing = greatest == -std::numeric_limits<float>::infinity();
      const float both =
          sees_nothing ? greatest : greatest + std::log(std::exp(a - greatest) + std::exp(b - greatest));
      run_blend_row({.types = types,
                     .a = row_of(args.first, row),
                     .b = row_of(args.second, row),
                     .a_weight = sees_nothing ? 0.0F : std::exp(a - both),
                     .b_weight = sees_nothing ? 0.0F : std::exp(b - both),
                     .out = row_of(args.o, row)},
                    head_size);
      args.lse.as<float>()[row] = both;
    }
  });
}

}  // namespace ingot::backend::cpu
