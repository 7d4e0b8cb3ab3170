#pragma once
// Which cores a rank computes on: each rank of a node gets its own share of those that this process may use,
// whole cores and neighbours in the machine where it knows (hwloc), else by number.

#include <sched.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::launch {

using Cpus = std::vector<int>;  // numbers of the system's logical processors, ascending

Cpus allowed_cpus();  // of this process; never empty
int online_cpus();

// The share of each of `ranks` (at least 1). Shares are equal to within one core; with more ranks than
// cores, neighbours share one.
std::vector<Cpus> share_cpus(const Cpus& allowed, int ranks);

// The same by number alone: what share_cpus does without hwloc.
std::vector<Cpus> share_by_number(const Cpus& allowed, int ranks);

// Binds the calling thread and those that it starts.
Result<void> bind_to(const Cpus& cpus);

std::string describe(const Cpus& cpus);  // "0-3,8"

}  // namespace ingot::launch
