#pragma once
// Members of a group that save or load together. Private to checkpoint: checkpoint.h is the interface.

#include <algorithm>
#include <memory>

#include "comm/comm.h"

namespace ingot::checkpoint {

// How long one member waits for another that works on `bytes` of a disk: ten minutes, or the slowest disk
// that is worth waiting for.
inline comm::CallOptions wait_for_disks(const char* what, int64_t bytes) {
  constexpr int64_t kLeastBytesPerMillisecond = 10'000, kLeastMilliseconds = 10 * 60 * 1000;
  comm::CallOptions options;
  options.timeout =
      std::chrono::milliseconds(std::max(kLeastMilliseconds, bytes / kLeastBytesPerMillisecond));
  options.what = what;
  return options;
}

// Calls body(group) with a group of this process alone.
template <class Body>
auto alone(const Body& body) {
  const auto world = comm::make_local_world(1);
  auto group = world[0]->group(graph::Mesh{}, graph::kWorldMask);
  INGOT_CHECK(group.has_value(), "{}", group.error().message);
  return body(**group);
}

}  // namespace ingot::checkpoint
