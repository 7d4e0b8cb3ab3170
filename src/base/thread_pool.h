#pragma once
// One pool of ours runs all compute. Work is cut into tiles by shape alone, never by the number of threads,
// so that bits do not depend on it. Tiles are handed out by one atomic counter: a thread that does not run
// costs only its own tiles. A wait spins for some 50 microseconds, then sleeps.

#include <cstdint>
#include <functional>
#include <memory>

namespace ingot {

// Threads that the affinity mask and the cgroup's CPU quota (v1 and v2) really give to this process; at
// least 1.
int available_threads();

class ThreadPool {
 public:
  // `threads` includes the caller of parallel_for; each worker calls `on_start` once before its first tile
  // (libraries with per-thread settings); the caller is no worker and sets itself up. 0 means
  // available_threads().
  explicit ThreadPool(int threads, std::function<void()> on_start = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(tile, thread) for every tile in [0, tiles), in any order, and returns when all are done;
  // thread is in [0, threads()). Not reentrant: a body must not call parallel_for of the same pool. Allocates
  // nothing.
  template <class Body>
  void parallel_for(int64_t tiles, const Body& body) {
    run(
        tiles, [](const void* b, int64_t tile, int thread) { (*static_cast<const Body*>(b))(tile, thread); },
        &body);
  }

  // Nanoseconds that worker `thread` spent inside bodies since the pool began (thread 0 is the caller).
  int64_t busy_ns(int thread) const;

 private:
  using Invoke = void (*)(const void* body, int64_t tile, int thread);
  void run(int64_t tiles, Invoke invoke, const void* body);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot
