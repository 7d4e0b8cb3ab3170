#include "base/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <string>
#include <vector>

#include "base/cgroup.h"
#include "base/check.h"
#include "base/clock.h"

namespace ingot {
namespace {

// Longer spins win nothing (a wake costs some 10 microseconds) and take the core from others. A pool that is
// larger than the machine hardly spins: its spinning thread holds the core that another thread's tile needs.
constexpr int64_t kSpinNs = 50'000;
constexpr int64_t kCrowdedSpinNs = 2'000;

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

void futex_wait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// Spins until `ready` or `spin_ns` have passed; true when ready.
template <class Ready>
bool spin_until(int64_t spin_ns, const Ready& ready) {
  for (int i = 0; i < 64; ++i) {
    if (ready()) return true;
    cpu_pause();
  }
  const int64_t deadline = monotonic_ns() + spin_ns;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      cpu_pause();
    }
  } while (monotonic_ns() < deadline);
  return ready();
}

}  // namespace

// A job is published through `ticket` = {epoch, tiles not yet handed out}. A thread takes a tile by compare
// and swap of the whole word, so a late thread can never take a tile of a job other than the one whose fields
// it read: the fields change only after every tile of their job is done, and then the old word holds no tile.
struct ThreadPool::State {
  struct alignas(64) Worker {
    pthread_t handle{};
    State* state = nullptr;
    int thread = 0;
    std::atomic<int64_t> busy_ns{0};
  };

  int threads = 1;
  int64_t spin_ns = kSpinNs;
  std::function<void()> on_start;
  std::vector<Worker> workers;  // [threads]; number 0 stands for the caller and has no handle

  alignas(64) std::atomic<uint64_t> ticket{0};
  std::atomic<Invoke> invoke{nullptr};
  std::atomic<const void*> body{nullptr};
  std::atomic<uint32_t> tiles{0};
  std::atomic<uint32_t> wake_epoch{0};        // workers sleep on it
  alignas(64) std::atomic<uint32_t> done{0};  // tiles done of this job; the caller sleeps on it
  std::atomic<uint32_t> caller_sleeps{0};
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<bool> running{false};
  std::atomic<bool> stop{false};

  static uint32_t remaining(uint64_t word) { return static_cast<uint32_t>(word); }

  void run_tiles(int thread);
  void wait_for_work();
  static void* worker_main(void* argument);
};

void ThreadPool::State::run_tiles(int thread) {
  uint64_t word = ticket.load(std::memory_order_acquire);
  if (remaining(word) == 0) return;
  const int64_t start = monotonic_ns();
  uint32_t finished = 0;
  uint32_t total = 0;
  while (remaining(word) != 0) {
    const Invoke call = invoke.load(std::memory_order_relaxed);
    const void* object = body.load(std::memory_order_relaxed);
    const uint32_t count = tiles.load(std::memory_order_relaxed);
    if (!ticket.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    total = count;
    call(object, int64_t{count} - remaining(word), thread);
    ++finished;
    word = ticket.load(std::memory_order_acquire);
  }
  if (finished == 0) return;
  auto& busy = workers[static_cast<size_t>(thread)].busy_ns;
  busy.store(busy.load(std::memory_order_relaxed) + monotonic_ns() - start, std::memory_order_relaxed);
  // seq_cst pairs with the caller's store of caller_sleeps and its look at done.
  if (done.fetch_add(finished) + finished == total && caller_sleeps.load() != 0) futex_wake(&done, 1);
}

void ThreadPool::State::wait_for_work() {
  const auto ready = [this] {
    return remaining(ticket.load(std::memory_order_relaxed)) != 0 || stop.load(std::memory_order_relaxed);
  };
  if (spin_until(spin_ns, ready)) return;
  const uint32_t epoch = wake_epoch.load();
  sleepers.fetch_add(1);
  if (!ready()) futex_wait(&wake_epoch, epoch);
  sleepers.fetch_sub(1);
}

void* ThreadPool::State::worker_main(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  State* state = worker->state;
  if (state->on_start) state->on_start();
  while (!state->stop.load(std::memory_order_acquire)) {
    state->run_tiles(worker->thread);
    state->wait_for_work();
  }
  return nullptr;
}

ThreadPool::ThreadPool(int threads, std::function<void()> on_start) : state_(std::make_unique<State>()) {
  INGOT_CHECK(threads >= 0 && threads <= 4096, "a pool of {} threads", threads);
  const int available = available_threads();
  state_->threads = threads == 0 ? available : threads;
  if (state_->threads > available) state_->spin_ns = kCrowdedSpinNs;
  state_->on_start = std::move(on_start);
  state_->workers = std::vector<State::Worker>(static_cast<size_t>(state_->threads));
  for (int t = 0; t < state_->threads; ++t) {
    State::Worker& worker = state_->workers[static_cast<size_t>(t)];
    worker.state = state_.get();
    worker.thread = t;
    if (t == 0) continue;
    const int code = pthread_create(&worker.handle, nullptr, &State::worker_main, &worker);
    INGOT_CHECK(code == 0, "cannot start thread {} of {}: system error {}", t, state_->threads, code);
    pthread_setname_np(worker.handle, ("ingot-" + std::to_string(t)).substr(0, 15).c_str());
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->wake_epoch.fetch_add(1);
  futex_wake(&state_->wake_epoch, INT_MAX);
  for (size_t t = 1; t < state_->workers.size(); ++t) pthread_join(state_->workers[t].handle, nullptr);
}

int ThreadPool::threads() const { return state_->threads; }

int64_t ThreadPool::busy_ns(int thread) const {
  INGOT_CHECK(thread >= 0 && thread < state_->threads, "thread {} of {}", thread, state_->threads);
  return state_->workers[static_cast<size_t>(thread)].busy_ns.load(std::memory_order_relaxed);
}

void ThreadPool::run(int64_t tiles, Invoke invoke, const void* body) {
  if (tiles <= 0) return;
  State& s = *state_;
  INGOT_CHECK(tiles < INT_MAX, "{} tiles in one call; at most {}", tiles, INT_MAX - 1);
  INGOT_CHECK(!s.running.exchange(true, std::memory_order_acquire),
              "parallel_for of {} tiles inside, or beside, another one of the same pool", tiles);
  if (tiles == 1 || s.threads == 1) {
    const int64_t start = monotonic_ns();
    for (int64_t tile = 0; tile < tiles; ++tile) invoke(body, tile, 0);
    auto& busy = s.workers[0].busy_ns;
    busy.store(busy.load(std::memory_order_relaxed) + monotonic_ns() - start, std::memory_order_relaxed);
    s.running.store(false, std::memory_order_release);
    return;
  }
  const auto count = static_cast<uint32_t>(tiles);
  s.done.store(0, std::memory_order_relaxed);
  s.invoke.store(invoke, std::memory_order_relaxed);
  s.body.store(body, std::memory_order_relaxed);
  s.tiles.store(count, std::memory_order_relaxed);
  const uint64_t epoch = (s.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  s.ticket.store(epoch << 32 | count, std::memory_order_release);
  s.wake_epoch.fetch_add(1);  // seq_cst: either we see the sleeper, or it sees the new epoch
  if (const int sleeping = s.sleepers.load(); sleeping > 0) {
    futex_wake(&s.wake_epoch, std::min(sleeping, static_cast<int>(count) - 1));
  }
  s.run_tiles(0);
  const auto finished = [&s, count] { return s.done.load(std::memory_order_acquire) == count; };
  if (!spin_until(s.spin_ns, finished)) {
    s.caller_sleeps.store(1);
    for (uint32_t seen = s.done.load(); seen != count; seen = s.done.load()) futex_wait(&s.done, seen);
    s.caller_sleeps.store(0);
  }
  s.running.store(false, std::memory_order_release);
}

int available_threads() {
  int cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  // Machines with more than 1,024 CPUs need a larger mask than cpu_set_t.
  constexpr int kMaxCpus = 8192;
  cpu_set_t* mask = CPU_ALLOC(kMaxCpus);
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  if (mask != nullptr && sched_getaffinity(0, bytes, mask) == 0) cpus = CPU_COUNT_S(bytes, mask);
  CPU_FREE(mask);
  return usable_threads(cpus, read_cgroup_limits("").cpus);
}

}  // namespace ingot
