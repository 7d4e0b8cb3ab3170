#pragma once
// Time and memory of this process and machine. No timers and no time zones: a format is base/units.h.

#include <cstdint>

namespace ingot {

int64_t monotonic_ns();         // never goes back; only differences mean something
double unix_seconds();          // wall clock
int64_t peak_resident_bytes();  // VmHWM of this process
int64_t resident_bytes();       // VmRSS
int64_t
available_memory_bytes();  // what this process may still take: MemAvailable and the cgroup's limit (v1, v2)

}  // namespace ingot
