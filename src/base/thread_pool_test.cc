#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace ingot {
namespace {

TEST(ThreadPool, EveryTileOnceForAnyThreadCount) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t tiles : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{7}, int64_t{1001}}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(tiles));
      std::atomic<bool> in_range{true};
      pool.parallel_for(tiles, [&](int64_t tile, int thread) {
        hits[static_cast<size_t>(tile)].fetch_add(1);
        if (thread < 0 || thread >= threads) in_range = false;
      });
      EXPECT_TRUE(in_range);
      for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1) << threads << " threads, " << tiles << " tiles";
    }
  }
}

TEST(ThreadPool, SameBitsForAnyThreadCount) {
  const auto compute = [](int threads) {
    ThreadPool pool(threads);
    std::vector<float> sums(37);
    for (int repeat = 0; repeat < 20; ++repeat) {
      pool.parallel_for(37, [&](int64_t tile, int) {
        float sum = sums[static_cast<size_t>(tile)];
        for (int i = 0; i < 301; ++i) sum += 1.0F / static_cast<float>(1 + tile * 301 + i);
        sums[static_cast<size_t>(tile)] = sum;
      });
    }
    return sums;
  };
  const auto one = compute(1);
  for (const int threads : {2, 3, 5, 8}) EXPECT_EQ(compute(threads), one) << threads;
}

// Plain memory written by one job is read by the next: the pool must order the two.
TEST(ThreadPool, ManySmallJobsSeeEachOther) {
  ThreadPool pool(8);
  std::vector<int64_t> a(16, 0), b(16, 0);
  for (int job = 0; job < 3000; ++job) {
    pool.parallel_for(16, [&](int64_t t, int) {
      const auto i = static_cast<size_t>(t);
      b[i] = a[(i + 5) % 16] + 1;
    });
    std::swap(a, b);
  }
  for (const int64_t value : a) ASSERT_EQ(value, 3000);
}

TEST(ThreadPool, EightThreadsProgressOnOneCore) {
  cpu_set_t old_mask, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(old_mask), &old_mask), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &old_mask)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(available_threads(), 1);
  {
    ThreadPool pool(8);
    std::atomic<int64_t> sum{0};
    for (int job = 0; job < 200; ++job) pool.parallel_for(64, [&](int64_t tile, int) { sum += tile; });
    EXPECT_EQ(sum.load(), 200 * 63 * 64 / 2);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(old_mask), &old_mask), 0);
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // past the spin: the worker sleeps
    std::atomic<int> meeting{0};
    std::atomic<bool> met{true};
    pool.parallel_for(2, [&](int64_t, int) {
      meeting.fetch_add(1);
      const int64_t deadline = monotonic_ns() + 5'000'000'000;
      while (meeting.load() < 2 && monotonic_ns() < deadline) sched_yield();
      if (meeting.load() < 2) met = false;
    });
    ASSERT_TRUE(met) << "a sleeping worker was not woken in round " << round;
  }
}

TEST(ThreadPool, CallerSleepsUntilALongTileIsDone) {
  ThreadPool pool(2);
  std::atomic<int> finished{0};
  pool.parallel_for(2, [&](int64_t, int thread) {
    if (thread != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    finished.fetch_add(1);
  });
  EXPECT_EQ(finished.load(), 2);
}

TEST(ThreadPool, OnStartRunsOncePerWorkerBeforeItsTiles) {
  thread_local bool started = false;
  std::atomic<int> starts{0};
  {
    ThreadPool pool(4, [&] {
      started = true;
      starts.fetch_add(1);
    });
    std::atomic<bool> all_started{true};
    for (int job = 0; job < 50; ++job) {
      pool.parallel_for(64, [&](int64_t, int thread) {
        if (thread != 0 && !started) all_started = false;
      });
    }
    EXPECT_TRUE(all_started);
  }
  EXPECT_EQ(starts.load(), 3);
}

TEST(ThreadPool, CountsBusyTime) {
  ThreadPool pool(1);
  pool.parallel_for(3, [](int64_t, int) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  EXPECT_GE(pool.busy_ns(0), 6'000'000);
}

TEST(ThreadPoolDeathTest, RefusesToNest) {
  ThreadPool pool(1);
  EXPECT_DEATH(pool.parallel_for(2, [&](int64_t, int) { pool.parallel_for(2, [](int64_t, int) {}); }),
               "parallel_for of 2 tiles inside");
}

}  // namespace
}  // namespace ingot
