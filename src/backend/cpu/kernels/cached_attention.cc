#include "backend/cpu/kernels/cached_attention.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/float_types.h"

namespace ingot::backend::cpu {

using tensor::DType;
using tensor::TensorView;

void cache_append(const Cpu& cpu, const CacheAppendArgs& args) {
  INGOT_CHECK(args.k.shape.rank() == 3 && args.key_cache.shape.rank() == 3 && args.k.shape == args.v.shape &&
                  args.key_cache.shape == args.value_cache.shape && args.k.dtype == args.key_cache.dtype &&
                  args.v.dtype == args.value_cache.dtype &&
                  args.k.shape.last() == args.key_cache.shape.last() &&
                  args.k.shape[0] == args.key_cache.shape[0],
              "keys {} do not fit a cache of {}", args.k.shape.to_string(), args.key_cache.shape.to_string());
  const int64_t seq_len = args.k.shape[1], cache_rows = args.key_cache.shape[1];
  const auto row_bytes = args.k.shape.last() * tensor::size_of(args.k.dtype);
  INGOT_CHECK(args.position.elements() == args.k.shape.rows(), "{} positions for {} rows",
              args.position.elements(), args.k.shape.rows());
  cpu.pool.parallel_for(args.k.shape.rows(), [&](int64_t row, int) {
    const int64_t position = args.position.as<const int32_t>()[row];
    INGOT_CHECK(position >= 0 && position < cache_rows, "position {} in a cache of {} rows", position,
                cache_rows);
    const int64_t to = (row / seq_len * cache_rows + position) * row_bytes;
    const auto bytes = static_cast<size_t>(row_bytes);
    std::memcpy(args.key_cache.as<std::byte>() + to, args.k.as<const std::byte>() + row * row_bytes, bytes);
    std::memcpy(args.value_cache.as<std::byte>() + to, args.v.as<const std::byte>() + row * row_bytes, bytes);
  });
}

int64_t cached_attention_workspace_bytes(int64_t cache_rows, int threads) {
  return threads * tensor::align_up(cache_rows * 4);
}

void cached_attention(const Cpu& cpu, const CachedAttentionArgs& args) {
  const AttentionShape& s = args.shape;
  check_float(args.q);
  INGOT_CHECK(args.q.dtype == args.key_cache.dtype && args.q.dtype == args.value_cache.dtype &&
                  args.q.dtype == args.o.dtype,
              "q, caches and o differ in type");
  INGOT_CHECK(s.head_size >= 1 && s.head_size <= 128 && s.kv_heads > 0 && s.heads % s.kv_heads == 0,
              "{} heads of {}, {} key-value heads", s.heads, s.head_size, s.kv_heads);
  INGOT_CHECK(args.key_cache.shape.rank() == 3 && args.key_cache.shape.last() == s.kv_heads * s.head_size,
              "a cache of {} for {} key-value heads of {}", args.key_cache.shape.to_string(), s.kv_heads,
              s.head_size);
  const int64_t cache_rows = args.key_cache.shape[1], stride = s.kv_heads * s.head_size;
  INGOT_CHECK(static_cast<int64_t>(args.workspace.size()) >=
                  cached_attention_workspace_bytes(cache_rows, cpu.pool.threads()),
              "workspace of {} bytes for {} rows", args.workspace.size(), cache_rows);
  const int64_t element = tensor::size_of(args.q.dtype);
  cpu.pool.parallel_for(s.batch * s.seq_len * s.heads, [&](int64_t tile, int thread) {
    const int64_t row = tile / s.heads, head = tile % s.heads, sample = row / s.seq_len;
    const int64_t position = args.position.as<const int32_t>()[row];
    INGOT_CHECK(position < cache_rows, "position {} in a cache of {} rows", position, cache_rows);
    const int64_t kv = (sample * cache_rows * stride + head / (s.heads / s.kv_heads) * s.head_size) * element;
    const int64_t q = (row * s.heads + head) * s.head_size * element;
    const int64_t doc_start = args.doc_start.data == nullptr ? 0 : args.doc_start.as<const int32_t>()[row];
    std::byte* scratch = args.workspace.data() + thread * tensor::align_up(cache_rows * 4);
    run_cached_head(args.q.dtype == DType::kBF16, {.q = args.q.as<const std::byte>() + q,
                                                   .keys = args.key_cache.as<const std::byte>() + kv,
                                                   .values = args.value_cache.as<const std::byte>() + kv,
                                                   .head_size = s.head_size,
                                                   .stride = stride,
                                                   .begin = std::max<int64_t>(doc_start, 0),
                                                   .end = position + 1,
                                                   .scale = args.scale,
                                                   .scores = reinterpret_cast<float*>(scratch),
                                                   .o = args.o.as<std::byte>() + q});
  });
}

}  // namespace ingot::backend::cpu
