#pragma once
// Closes memory that nobody may touch at the moment: where the build has the address sanitizer, a read or
// write of a closed byte ends the program with a report; elsewhere nothing is done. Whoever unmaps memory
// opens it first. And poison, which shows where nobody wrote. Internal to runtime.

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ingot::runtime {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kMemoryCloses = true;
inline void close_memory(const void* at, int64_t bytes) {
  if (bytes > 0) __asan_poison_memory_region(at, static_cast<size_t>(bytes));
}
inline void open_memory(const void* at, int64_t bytes) {
  if (bytes > 0) __asan_unpoison_memory_region(at, static_cast<size_t>(bytes));
}
#else
inline constexpr bool kMemoryCloses = false;
inline void close_memory(const void*, int64_t) {}
inline void open_memory(const void*, int64_t) {}
#endif

// All bits set: NaN in every floating type, -1 in integers. For memory that is open.
inline void poison(std::byte* at, int64_t bytes) {
  if (bytes > 0) std::memset(at, 0xff, static_cast<size_t>(bytes));
}

// The same for memory that is closed and stays so.
inline void poison_closed(std::byte* at, int64_t bytes) {
  open_memory(at, bytes);
  poison(at, bytes);
  close_memory(at, bytes);
}

}  // namespace ingot::runtime
