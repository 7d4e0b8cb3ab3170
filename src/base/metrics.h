#pragma once
// The metrics registry: counters, gauges and histograms by name and labels, in memory. It writes no file and
// serves no port: observe and train take a snapshot and do. To add a metric, ask the registry for it where it
// is measured; its unit is the end of its name ("step_time_ms").

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace ingot {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// All three may be used from any thread, and neither lock nor allocate.
class Counter {
 public:
  void add(double amount = 1);  // never negative
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(
      std::vector<double> upper_bounds);  // rising; values above the last go to one more bucket
  void observe(double value);
  const std::vector<double>& upper_bounds() const { return bounds_; }
  std::vector<int64_t> counts() const;  // [upper_bounds + 1], not cumulative
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<int64_t>> counts_;
  std::atomic<double> sum_{0};
};

enum class MetricKind : uint8_t { kCounter, kGauge, kHistogram };

struct MetricSample {
  MetricKind kind = MetricKind::kGauge;
  std::string name;
  std::string description;
  MetricLabels labels;  // sorted by name
  double value = 0;     // counter, gauge; the sum of a histogram
  std::vector<double> upper_bounds;
  std::vector<int64_t> counts;  // [upper_bounds + 1]
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The metric of that name and labels, made when first asked for; the reference lives as long as the
  // registry. One name has one kind, one description (the first that is not empty) and one list of bounds:
  // anything else is our bug.
  Counter& counter(std::string_view name, std::string_view description = {}, MetricLabels labels = {});
  Gauge& gauge(std::string_view name, std::string_view description = {}, MetricLabels labels = {});
  Histogram& histogram(std::string_view name, std::vector<double> upper_bounds,
                       std::string_view description = {}, MetricLabels labels = {});

  std::vector<MetricSample> snapshot() const;  // sorted by name, then labels

 private:
  struct Entry;
  Entry& find_or_make(MetricKind kind, std::string_view name, std::string_view description,
                      MetricLabels labels, std::vector<double> upper_bounds);
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_ INGOT_GUARDED_BY(mutex_);
};

}  // namespace ingot
