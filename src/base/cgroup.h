#pragma once
// What the control groups of this process allow, versions 1 and 2: the smallest limit on the way from its own
// group up to the root. Internal to base: callers want available_threads() and available_memory_bytes().

#include <cstdint>
#include <string>

namespace ingot {

struct CgroupLimits {
  double cpus = 0;                      // quota / period; 0 when there is none
  int64_t memory_available_bytes = -1;  // limit - use that cannot be reclaimed; -1 when there is no limit
};

// `root` is "" on a real machine; tests give a folder that holds proc/self/cgroup and sys/fs/cgroup.
CgroupLimits read_cgroup_limits(const std::string& root);

// min(cpus in the affinity mask, quota rounded down), at least 1.
int usable_threads(int affinity_cpus, double quota_cpus);

}  // namespace ingot
