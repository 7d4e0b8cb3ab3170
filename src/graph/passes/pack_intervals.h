#pragma once
// Packs intervals of time that need bytes into one area: the scratch of a segment. Pure arithmetic, no graph.

#include <cstdint>
#include <vector>

namespace ingot::graph {

struct Interval {
  int begin = 0, end = 0;  // steps during which the bytes are held, both inclusive
  int64_t bytes = 0;
  int64_t offset = 0;  // set by pack_intervals
};

// Sets the offsets so that no two intervals that share a step share a byte; returns the size of the area.
// Tries several greedy orders and keeps the smallest. Offsets are sums of sizes, and so aligned as these are.
int64_t pack_intervals(std::vector<Interval>& intervals);

// The greatest sum of bytes held in one step: no area can be smaller.
int64_t greatest_load(const std::vector<Interval>& intervals);

}  // namespace ingot::graph
