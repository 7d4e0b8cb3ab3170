#include "base/metrics.h"

#include <gtest/gtest.h>

#include <thread>

namespace ingot {
namespace {

TEST(Metrics, SnapshotIsSortedAndWhole) {
  Metrics metrics;
  metrics.gauge("loss", "training loss").set(2.5);
  metrics.counter("events_total", "events", {{"kind", "b"}, {"a", "1"}}).add(2);
  metrics.counter("events_total", "", {{"kind", "a"}, {"a", "1"}}).add();
  metrics.counter("events_total", "", {{"a", "1"}, {"kind", "b"}}).add(3);
  Histogram& times = metrics.histogram("step_time_ms", {10, 100});
  for (const double ms : {1.0, 10.0, 50.0, 1000.0}) times.observe(ms);
  const auto samples = metrics.snapshot();
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_EQ(samples[0].labels, (MetricLabels{{"a", "1"}, {"kind", "a"}}));
  EXPECT_EQ(samples[0].value, 1);
  EXPECT_EQ(samples[0].description, "events");
  EXPECT_EQ(samples[1].value, 5) << "labels in another order are the same labels";
  EXPECT_EQ(samples[2].name, "loss");
  EXPECT_EQ(samples[2].value, 2.5);
  EXPECT_EQ(samples[3].counts, (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(samples[3].value, 1061);
}

TEST(Metrics, ManyThreadsLoseNothing) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 2000; ++i) {
        metrics.counter("tokens_total").add(2);
        metrics.histogram("wait_ms", {1}).observe(i % 2 == 0 ? 0.5 : 2);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto samples = metrics.snapshot();
  EXPECT_EQ(samples[0].value, 16'000);
  EXPECT_EQ(samples[1].counts, (std::vector<int64_t>{4000, 4000}));
}

TEST(MetricsDeathTest, OneNameHasOneKind) {
  Metrics metrics;
  metrics.gauge("loss");
  EXPECT_DEATH(metrics.counter("loss"), "two kinds");
  EXPECT_DEATH(metrics.counter("count").add(-1), "only grows");
}

}  // namespace
}  // namespace ingot
