#pragma once
// What one rank is doing, for whoever watches it: in memory that its agent or parent maps too. Plain atomics,
// written with relaxed order by the threads of the rank and read by others at any time: each field is whole,
// two fields may be of different moments. Reports; never decides.

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::comm {

enum class RankState : uint32_t { kStarting, kComputing, kWaiting, kLeaving };

// One per rank, 128 bytes: no two share a cache line. All zero before the rank has started.
struct alignas(128) ProgressPage {
  // By the thread that issues instructions.
  std::atomic<int64_t> time_ns{0};       // monotonic, of the last change of what follows
  std::atomic<int64_t> step{0};          // optimizer step
  std::atomic<int32_t> invocation{-1};   // position in the program's timeline
  std::atomic<int32_t> instruction{-1};  // id of the communication it is in, or was in last
  std::atomic<uint64_t> sequence{0};     // calls that this rank has made on all its communicators
  std::atomic<RankState> state{RankState::kStarting};
  std::atomic<int32_t> pid{0};
  std::atomic<uint32_t> generation{0};
  std::atomic<int64_t> limit_ns{0};  // of the wait that it is in, or was in last: others are told after it
  std::array<std::atomic<int64_t>, 6> words{};  // and what it waits in: see say()
  // By whoever drives the transport.
  std::atomic<int32_t> peer{-1};         // rank of the world that it waits for, -1: nobody
  std::atomic<int64_t> heartbeat_ns{0};  // monotonic; at most 0.2 s old while the rank lives

  // An operation and what it moves, as many bytes of them as fit; allocates nothing.
  void say(std::string_view operation, std::string_view what);
  std::string said() const;  // "all_reduce #88 (gradients of layer 12)", "" where nothing was said
};
static_assert(sizeof(ProgressPage) == 128);
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<RankState>::is_always_lock_free);

}  // namespace ingot::comm
