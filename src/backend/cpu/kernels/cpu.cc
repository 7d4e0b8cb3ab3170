#include "backend/cpu/kernels/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif
#if defined(__aarch64__)
#include <cstdint>
#endif

namespace ingot::backend::cpu {

#if defined(__x86_64__)

bool has_avx512_bf16() {
  // The compiler's check covers what the system saves; it knows avx512bf16 by name only from g++ 13 on.
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return false;
  }
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1U << 5)) != 0;
}

void flush_denormals() { _mm_setcsr(_mm_getcsr() | 0x8040U); }

#elif defined(__aarch64__)

bool has_avx512_bf16() { return false; }

void flush_denormals() {
  uint64_t fpcr = 0;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  asm volatile("msr fpcr, %0" : : "r"(fpcr | (uint64_t{1} << 24)));
}

#else

bool has_avx512_bf16() { return false; }
void flush_denormals() {}

#endif

}  // namespace ingot::backend::cpu
