#pragma once
// Inside of attention.h: one query head of decode over the rows of a cache.

#include <cstdint>

namespace ingot::backend::cpu {

// o = Σ_s softmax(scale · q · keys[s]) values[s] over rows [begin, end); `scores` holds end − begin floats.
struct CachedHead {
  const void *q = nullptr, *keys = nullptr, *values = nullptr;  // of one type
  int64_t head_size = 0, stride = 0;                            // elements between rows of the cache
  int64_t begin = 0, end = 0;
  float scale = 1;
  float* scores = nullptr;
  void* o = nullptr;
};
void run_cached_head(bool bf16, const CachedHead& head);

}  // namespace ingot::backend::cpu
