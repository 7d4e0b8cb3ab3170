#pragma once
// One way to time an all-reduce of two programs that are compared: the same memory, the same rounds.

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/clock.h"

namespace ingot {

// float32 in huge pages, touched.
inline float* huge_pages(int64_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t size = (static_cast<size_t>(bytes) + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, size);
  madvise(memory, size, MADV_HUGEPAGE);
  float* data = static_cast<float*>(memory);
  std::fill_n(data, size / sizeof(float), 1.0F);
  return data;
}

// Median seconds of `call`, each after a `barrier`.
inline double median_seconds(int rounds, const std::function<void()>& barrier,
                             const std::function<void()>& call) {
  constexpr int kWarmUp = 3;
  std::vector<double> seconds;
  for (int round = -kWarmUp; round < rounds; ++round) {
    barrier();
    const int64_t begin = monotonic_ns();
    call();
    if (round >= 0) seconds.push_back(static_cast<double>(monotonic_ns() - begin) * 1e-9);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// Rank 0's answer to who started it.
inline void write_seconds(const char* path, double seconds) {
  if (FILE* file = std::fopen(path, "w")) {
    std::fprintf(file, "%.9g\n", seconds);
    std::fclose(file);
  }
}

}  // namespace ingot
