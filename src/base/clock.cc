#include "base/clock.h"

#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include "base/cgroup.h"

namespace ingot {
namespace {

// A line "VmRSS:   123 kB" of a file below /proc; 0 when it is not there.
int64_t kibibytes_of(const char* path, std::string_view name) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.size() > name.size() && line.compare(0, name.size(), name) == 0 && line[name.size()] == ':') {
      return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10);
    }
  }
  return 0;
}

}  // namespace

int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

double unix_seconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

int64_t peak_resident_bytes() { return kibibytes_of("/proc/self/status", "VmHWM") * 1024; }
int64_t resident_bytes() { return kibibytes_of("/proc/self/status", "VmRSS") * 1024; }

int64_t available_memory_bytes() {
  const int64_t machine = kibibytes_of("/proc/meminfo", "MemAvailable") * 1024;
  const int64_t group = read_cgroup_limits("").memory_available_bytes;
  return group < 0 ? machine : std::min(machine, group);
}

}  // namespace ingot
