#pragma once
// Measures what messages cost between the ranks of a world, and how long each algorithm takes: the fabric
// that collectives are then chosen by, and a table that shows how good the choice is.

#include <string>
#include <vector>

#include "comm/comm.h"
#include "cost/collective_cost.h"

namespace ingot::comm {

struct MeasuredCollective {
  cost::Collective operation = cost::Collective::kAllReduce;
  int64_t bytes = 0;      // of the operand
  std::string algorithm;  // empty: the transport has no schedules
  int64_t piece_bytes = 0;
  double seconds = 0;    // median
  double predicted = 0;  // 0: not predicted
  bool chosen = false;   // by the measured fabric
};

struct MeasureOptions {
  std::vector<int64_t> sizes = {4 << 10, 64 << 10, 1 << 20, 16 << 20,
                                64 << 20};  // of float32 operands, bytes
  double seconds_each = 0.3;                // at most, for one size and algorithm
  int cores_of_this_rank = 1;
  CallOptions call;
};

struct FabricMeasure {
  cost::Fabric fabric;  // links of classes that no two ranks have keep the values of `before`
  bool has_node = false, has_network = false;
  std::vector<MeasuredCollective> collectives;  // by size, then as candidates are listed
};

// All ranks call it together, on a transport that nobody else uses. The same result on every rank.
Result<FabricMeasure> measure_fabric(Transport& transport, const cost::Fabric& before,
                                     const MeasureOptions& options);

}  // namespace ingot::comm
