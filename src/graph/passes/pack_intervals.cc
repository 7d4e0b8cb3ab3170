#include "graph/passes/pack_intervals.h"

#include <algorithm>
#include <numeric>

namespace ingot::graph {
namespace {

using Order = std::vector<size_t>;

int steps_of(const std::vector<Interval>& intervals) {
  int steps = 0;
  for (const Interval& interval : intervals) steps = std::max(steps, interval.end + 1);
  return steps;
}

// Places each interval of `order` in the tightest gap between those already placed that share a step with it.
class Placement {
 public:
  Placement(std::vector<Interval>& intervals, int steps)
      : intervals_(intervals), placed_at_(static_cast<size_t>(steps)), mark_(intervals.size(), 0) {}

  int64_t run(const Order& order) {
    int64_t top = 0;
    for (const size_t index : order) {
      place(index);
      top = std::max(top, intervals_[index].offset + intervals_[index].bytes);
    }
    return top;
  }

 private:
  void place(size_t index) {
    Interval& interval = intervals_[index];
    neighbours_.clear();
    ++generation_;
    for (int step = interval.begin; step <= interval.end; ++step)
      for (const size_t other : placed_at_[static_cast<size_t>(step)]) {
        if (mark_[other] == generation_) continue;
        mark_[other] = generation_;
        neighbours_.push_back(other);
      }
    std::ranges::sort(neighbours_, {}, [&](size_t other) { return intervals_[other].offset; });
    int64_t free_from = 0, best = -1, best_gap = 0;
    for (const size_t other : neighbours_) {
      const int64_t gap = intervals_[other].offset - free_from;
      if (gap >= interval.bytes && (best < 0 || gap < best_gap)) {
        best = free_from;
        best_gap = gap;
      }
      free_from = std::max(free_from, intervals_[other].offset + intervals_[other].bytes);
    }
    interval.offset = best >= 0 ? best : free_from;
    for (int step = interval.begin; step <= interval.end; ++step)
      placed_at_[static_cast<size_t>(step)].push_back(index);
  }

  std::vector<Interval>& intervals_;
  std::vector<std::vector<size_t>> placed_at_;  // per step, those that hold bytes in it
  std::vector<size_t> neighbours_;
  std::vector<unsigned> mark_;
  unsigned generation_ = 0;
};

}  // namespace

int64_t greatest_load(const std::vector<Interval>& intervals) {
  std::vector<int64_t> change(static_cast<size_t>(steps_of(intervals)) + 1, 0);
  for (const Interval& interval : intervals) {
    change[static_cast<size_t>(interval.begin)] += interval.bytes;
    change[static_cast<size_t>(interval.end) + 1] -= interval.bytes;
  }
  int64_t load = 0, greatest = 0;
  for (const int64_t step : change) greatest = std::max(greatest, load += step);
  return greatest;
}

namespace {

constexpr int kRepairs = 12;

// Greedy by one order, then again with those that stick out above `bound` placed first, as long as it may
// help.
class Packing {
 public:
  explicit Packing(const std::vector<Interval>& intervals)
      : intervals_(intervals), steps_(steps_of(intervals)), bound_(greatest_load(intervals)) {}

  bool optimal() const { return smallest_ == bound_; }
  int64_t smallest() const { return smallest_; }
  std::vector<Interval> best() && { return std::move(best_); }

  void try_order(Order order) {
    for (int repair = 0; repair <= kRepairs && !optimal(); ++repair) {
      std::vector<Interval> attempt = intervals_;
      const int64_t top = Placement(attempt, steps_).run(order);
      std::stable_partition(order.begin(), order.end(),
                            [&](size_t i) { return attempt[i].offset + attempt[i].bytes > bound_; });
      if (smallest_ >= 0 && top >= smallest_) continue;
      smallest_ = top;
      best_ = std::move(attempt);
    }
  }

 private:
  const std::vector<Interval>& intervals_;
  const int steps_;
  const int64_t bound_;
  int64_t smallest_ = -1;
  std::vector<Interval> best_;
};

}  // namespace

int64_t pack_intervals(std::vector<Interval>& intervals) {
  if (intervals.empty()) return 0;
  Order by_size(intervals.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  Order by_time = by_size, by_area = by_size;
  std::ranges::stable_sort(by_size, std::greater{}, [&](size_t i) { return intervals[i].bytes; });
  std::ranges::stable_sort(by_time, {}, [&](size_t i) { return intervals[i].begin; });
  std::ranges::stable_sort(by_area, std::greater{}, [&](size_t i) {
    return intervals[i].bytes * (intervals[i].end - intervals[i].begin + 1);
  });
  Packing packing(intervals);
  packing.try_order(std::move(by_size));
  packing.try_order(std::move(by_area));
  packing.try_order(std::move(by_time));
  const int64_t smallest = packing.smallest();
  intervals = std::move(packing).best();
  return smallest;
}

}  // namespace ingot::graph
