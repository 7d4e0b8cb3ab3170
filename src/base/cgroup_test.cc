#include "base/cgroup.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/test_folder.h"
#include "base/thread_pool.h"

namespace ingot {
namespace {

class CgroupTest : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) const { (void)folder_.write(path, text); }
  const TestFolder folder_;
  const std::string& root_ = folder_.path();
};

TEST_F(CgroupTest, NothingThere) {
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_EQ(limits.cpus, 0);
  EXPECT_EQ(limits.memory_available_bytes, -1);
}

TEST_F(CgroupTest, Version1) {
  put("/proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n2:cpuset:/\n");
  put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000\n");
  put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "700000\n");
  put("/sys/fs/cgroup/memory/job/memory.stat", "cache 5\ntotal_inactive_file 100000\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "900000\n");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_DOUBLE_EQ(limits.cpus, 2.5);
  EXPECT_EQ(limits.memory_available_bytes, 400'000);
}

TEST_F(CgroupTest, Version2TakesTheSmallestOnTheWayUp) {
  put("/proc/self/cgroup", "0::/slice/job\n");
  put("/sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  put("/sys/fs/cgroup/slice/cpu.max", "150000 50000\n");
  put("/sys/fs/cgroup/slice/job/memory.max", "max\n");
  put("/sys/fs/cgroup/slice/memory.max", "5000\n");
  put("/sys/fs/cgroup/slice/memory.current", "6000\n");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_DOUBLE_EQ(limits.cpus, 3);
  EXPECT_EQ(limits.memory_available_bytes, 0);
}

TEST_F(CgroupTest, ContainerWhosePathIsOutsideTheMount) {
  put("/proc/self/cgroup", "0::/host/docker/abc\n");
  put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpus, 0.5);
}

TEST(UsableThreads, SmallerOfMaskAndQuota) {
  EXPECT_EQ(usable_threads(8, 0), 8);
  EXPECT_EQ(usable_threads(8, 2.5), 2);
  EXPECT_EQ(usable_threads(2, 16), 2);
  EXPECT_EQ(usable_threads(8, 0.5), 1);
  EXPECT_EQ(usable_threads(0, 0), 1);
  EXPECT_GE(available_threads(), 1);
}

TEST(Clock, MemoryAndTime) {
  const int64_t before = monotonic_ns();
  EXPECT_GT(resident_bytes(), 1 << 20);
  EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
  EXPECT_GT(available_memory_bytes(), 1 << 20);
  EXPECT_GT(unix_seconds(), 1.7e9);
  EXPECT_GE(monotonic_ns(), before);
}

}  // namespace
}  // namespace ingot
