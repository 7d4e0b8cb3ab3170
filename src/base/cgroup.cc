#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace ingot {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<int64_t> as_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_integer(const std::string& path) {
  const auto line = first_line(path);
  return line ? as_integer(*line) : std::nullopt;
}

int64_t read_stat(const std::string& path, std::string_view name) {
  std::ifstream in(path);
  std::string key;
  int64_t value = 0;
  while (in >> key >> value) {
    if (key == name) return value;
  }
  return 0;
}

// The group's folder and all its parents below `mount`; in a container the path that the kernel prints may
// lie outside of the mount, so those that do not exist are simply not found.
std::vector<std::string> folders(const std::string& mount, std::string path) {
  std::vector<std::string> result;
  while (!path.empty() && path != "/") {
    result.push_back(mount + path);
    path.erase(path.find_last_of('/'));
  }
  result.push_back(mount);
  return result;
}

void apply_cpus(CgroupLimits* limits, double quota, double period) {
  if (quota <= 0 || period <= 0) return;
  const double cpus = quota / period;
  if (limits->cpus == 0 || cpus < limits->cpus) limits->cpus = cpus;
}

void apply_memory(CgroupLimits* limits, int64_t limit, int64_t used, int64_t reclaimable) {
  // Version 1 says "no limit" with a number near 2^63.
  if (limit <= 0 || limit > (int64_t{1} << 60)) return;
  const int64_t available = std::max<int64_t>(0, limit - std::max<int64_t>(0, used - reclaimable));
  if (limits->memory_available_bytes < 0 || available < limits->memory_available_bytes) {
    limits->memory_available_bytes = available;
  }
}

void read_version1_cpu(CgroupLimits* limits, const std::string& folder) {
  const auto quota = read_integer(folder + "/cpu.cfs_quota_us");
  const auto period = read_integer(folder + "/cpu.cfs_period_us");
  if (quota && period) apply_cpus(limits, static_cast<double>(*quota), static_cast<double>(*period));
}

void read_version1_memory(CgroupLimits* limits, const std::string& folder) {
  const auto limit = read_integer(folder + "/memory.limit_in_bytes");
  const auto used = read_integer(folder + "/memory.usage_in_bytes");
  if (limit && used) {
    apply_memory(limits, *limit, *used, read_stat(folder + "/memory.stat", "total_inactive_file"));
  }
}

void read_version2(CgroupLimits* limits, const std::string& folder) {
  if (const auto line = first_line(folder + "/cpu.max")) {
    std::istringstream in(*line);
    std::string quota, period;
    in >> quota >> period;
    const auto q = as_integer(quota), p = as_integer(period);
    if (q && p) apply_cpus(limits, static_cast<double>(*q), static_cast<double>(*p));
  }
  const auto limit = read_integer(folder + "/memory.max");
  const auto used = read_integer(folder + "/memory.current");
  if (limit && used) apply_memory(limits, *limit, *used, read_stat(folder + "/memory.stat", "inactive_file"));
}

bool has_controller(const std::string& list, std::string_view wanted) {
  std::istringstream in(list);
  std::string one;
  while (std::getline(in, one, ',')) {
    if (one == wanted) return true;
  }
  return false;
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const size_t a = line.find(':');
    const size_t b = a == std::string::npos ? a : line.find(':', a + 1);
    if (b == std::string::npos || b + 1 >= line.size() || line[b + 1] != '/') continue;
    const std::string controllers = line.substr(a + 1, b - a - 1);
    const std::string path = line.substr(b + 1);
    if (controllers.empty()) {
      for (const auto& folder : folders(mount, path)) read_version2(&limits, folder);
      for (const auto& folder : folders(mount + "/unified", path)) read_version2(&limits, folder);
    }
    if (has_controller(controllers, "cpu")) {
      for (const auto& folder : folders(mount + "/cpu", path)) read_version1_cpu(&limits, folder);
      for (const auto& folder : folders(mount + "/" + controllers, path)) read_version1_cpu(&limits, folder);
    }
    if (has_controller(controllers, "memory")) {
      for (const auto& folder : folders(mount + "/memory", path)) read_version1_memory(&limits, folder);
    }
  }
  return limits;
}

int usable_threads(int affinity_cpus, double quota_cpus) {
  int threads = std::max(1, affinity_cpus);
  // Rounded down: a thread that is throttled half of the time holds up all that wait for its tile.
  if (quota_cpus > 0)
    threads = std::min(threads, std::max(1, static_cast<int>(std::floor(quota_cpus + 1e-6))));
  return threads;
}

}  // namespace ingot
