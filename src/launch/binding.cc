#include "launch/binding.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#ifdef INGOT_HWLOC
#include <hwloc.h>
#endif

namespace ingot::launch {
namespace {

constexpr int kMostCpus = 8192;

// A set of the system's size for machines with many processors.
struct CpuSet {
  CpuSet() : set(CPU_ALLOC(kMostCpus)), bytes(CPU_ALLOC_SIZE(kMostCpus)) { CPU_ZERO_S(bytes, set); }
  ~CpuSet() { CPU_FREE(set); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
  cpu_set_t* set;
  size_t bytes;
};

#ifdef INGOT_HWLOC
struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// Nothing where hwloc does not know the machine.
std::optional<std::vector<Cpus>> share_by_topology(const Cpus& allowed, int ranks) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return std::nullopt;
  const std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  if (hwloc_topology_load(raw) != 0) return std::nullopt;
  const Bitmap mask(hwloc_bitmap_alloc());
  for (const int cpu : allowed) hwloc_bitmap_set(mask.get(), static_cast<unsigned>(cpu));
  if (hwloc_topology_restrict(raw, mask.get(), 0) != 0) return std::nullopt;
  hwloc_obj_t root = hwloc_get_root_obj(raw);
  std::vector<hwloc_bitmap_t> sets(static_cast<size_t>(ranks), nullptr);
  const int status = hwloc_distrib(raw, &root, 1, sets.data(), static_cast<unsigned>(ranks), INT_MAX, 0);
  std::vector<Cpus> shares;
  for (hwloc_bitmap_t set : sets) {
    const Bitmap own(set);
    Cpus cpus;
    if (own) {
      for (const int cpu : allowed) {
        if (hwloc_bitmap_isset(own.get(), static_cast<unsigned>(cpu)) != 0) cpus.push_back(cpu);
      }
    }
    shares.push_back(std::move(cpus));
  }
  const bool complete =
      std::none_of(shares.begin(), shares.end(), [](const Cpus& share) { return share.empty(); });
  return status == 0 && complete ? std::optional(std::move(shares)) : std::nullopt;
}
#else
std::optional<std::vector<Cpus>> share_by_topology(const Cpus&, int) { return std::nullopt; }
#endif

}  // namespace

Cpus allowed_cpus() {
  const CpuSet mask;
  Cpus cpus;
  if (::sched_getaffinity(0, mask.bytes, mask.set) == 0) {
    for (int cpu = 0; cpu < kMostCpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), mask.bytes, mask.set)) cpus.push_back(cpu);
    }
  }
  if (!cpus.empty()) return cpus;
  cpus.resize(static_cast<size_t>(online_cpus()));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

int online_cpus() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

std::vector<Cpus> share_by_number(const Cpus& allowed, int ranks) {
  const size_t count = allowed.size(), all = static_cast<size_t>(ranks);
  std::vector<Cpus> shares;
  for (size_t rank = 0; rank < all; ++rank) {
    const size_t first = rank * count / all, end = std::max(first + 1, (rank + 1) * count / all);
    shares.emplace_back(allowed.begin() + static_cast<std::ptrdiff_t>(first),
                        allowed.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return shares;
}

std::vector<Cpus> share_cpus(const Cpus& allowed, int ranks) {
  INGOT_CHECK(ranks >= 1 && !allowed.empty(), "{} ranks on {} processors", ranks, allowed.size());
  return share_by_topology(allowed, ranks).value_or(share_by_number(allowed, ranks));
}

Result<void> bind_to(const Cpus& cpus) {
  const CpuSet mask;
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), mask.bytes, mask.set);
  if (::sched_setaffinity(0, mask.bytes, mask.set) == 0) return {};
  return io_error(fmt::format("cannot bind to processors {}: {}", describe(cpus),
                              std::generic_category().message(errno)));
}

std::string describe(const Cpus& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (end - i > 1) text += fmt::format("-{}", cpus[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace ingot::launch
