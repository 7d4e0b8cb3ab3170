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

int64_t pack_intervals(std::vector<Interval>& intervals) {
  if (intervals.empty()) return 0;
  const int steps = steps_of(intervals);
  const int64_t bound = greatest_load(intervals);
  Order by_size(intervals.size()), by_time, by_length;
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  by_time = by_length = by_size;
  std::ranges::stable_sort(by_size, std::greater{}, [&](size_t i) { return intervals[i].bytes; });
  std::ranges::stable_sort(by_time, {}, [&](size_t i) { return intervals[i].begin; });
  std::ranges::stable_sort(by_length, std::greater{}, [&](size_t i) {
    return intervals[i].bytes * (intervals[i].end - intervals[i].begin + 1);
  });
  std::vector<Interval> best;
  int64_t smallest = -1;
  for (const Order* order : {&by_size, &by_length, &by_time}) {
    std::vector<Interval> attempt = intervals;
    const int64_t top = Placement(attempt, steps).run(*order);
    if (smallest >= 0 && top >= smallest) continue;
    smallest = top;
    best = std::move(attempt);
    if (smallest == bound) break;
  }
  intervals = std::move(best);
  return smallest;
}

}  // namespace ingot::graph
