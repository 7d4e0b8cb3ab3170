#include "base/metrics.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace ingot {
namespace {

void add_to(std::atomic<double>* value, double amount) {
  double old = value->load(std::memory_order_relaxed);
  while (!value->compare_exchange_weak(old, old + amount, std::memory_order_relaxed)) {
  }
}

}  // namespace

struct Metrics::Entry {
  MetricKind kind;
  std::string name;
  std::string description;
  MetricLabels labels;
  Counter counter;
  Gauge gauge;
  Histogram histogram;
};

void Counter::add(double amount) {
  INGOT_CHECK(amount >= 0, "a counter only grows; {} was added", amount);
  add_to(&value_, amount);
}

Histogram::Histogram(std::vector<double> upper_bounds)
    : bounds_(std::move(upper_bounds)), counts_(bounds_.size() + 1) {
  INGOT_CHECK(std::is_sorted(bounds_.begin(), bounds_.end()), "bounds of a histogram must rise");
}

void Histogram::observe(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  add_to(&sum_, value);
}

std::vector<int64_t> Histogram::counts() const {
  std::vector<int64_t> result;
  for (const auto& count : counts_) result.push_back(count.load(std::memory_order_relaxed));
  return result;
}

Metrics::Metrics() = default;
Metrics::~Metrics() = default;

Metrics::Entry& Metrics::find_or_make(MetricKind kind, std::string_view name, std::string_view description,
                                      MetricLabels labels, std::vector<double> upper_bounds) {
  std::sort(labels.begin(), labels.end());
  const MutexLock lock(mutex_);
  std::string said(description);
  for (const auto& entry : entries_) {
    if (entry->name != name) continue;
    INGOT_CHECK(entry->kind == kind, "metric {} is asked for as two kinds", name);
    INGOT_CHECK(kind != MetricKind::kHistogram || entry->histogram.upper_bounds() == upper_bounds,
                "metric {} is asked for with two lists of bounds", name);
    if (said.empty()) said = entry->description;
    if (entry->labels == labels) return *entry;
  }
  entries_.push_back(std::unique_ptr<Entry>(new Entry{
      kind, std::string(name), said, std::move(labels), {}, {}, Histogram(std::move(upper_bounds))}));
  return *entries_.back();
}

Counter& Metrics::counter(std::string_view name, std::string_view description, MetricLabels labels) {
  return find_or_make(MetricKind::kCounter, name, description, std::move(labels), {}).counter;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view description, MetricLabels labels) {
  return find_or_make(MetricKind::kGauge, name, description, std::move(labels), {}).gauge;
}

Histogram& Metrics::histogram(std::string_view name, std::vector<double> upper_bounds,
                              std::string_view description, MetricLabels labels) {
  return find_or_make(MetricKind::kHistogram, name, description, std::move(labels), std::move(upper_bounds))
      .histogram;
}

std::vector<MetricSample> Metrics::snapshot() const {
  std::vector<MetricSample> samples;
  {
    const MutexLock lock(mutex_);
    for (const auto& entry : entries_) {
      MetricSample sample{entry->kind, entry->name, entry->description, entry->labels, 0, {}, {}};
      if (entry->kind == MetricKind::kCounter) sample.value = entry->counter.value();
      if (entry->kind == MetricKind::kGauge) sample.value = entry->gauge.value();
      if (entry->kind == MetricKind::kHistogram) {
        sample.value = entry->histogram.sum();
        sample.upper_bounds = entry->histogram.upper_bounds();
        sample.counts = entry->histogram.counts();
      }
      samples.push_back(std::move(sample));
    }
  }
  std::sort(samples.begin(), samples.end(), [](const MetricSample& a, const MetricSample& b) {
    return std::tie(a.name, a.labels) < std::tie(b.name, b.labels);
  });
  return samples;
}

}  // namespace ingot
