#pragma once
// What a collective costs, and which algorithm runs it.

#include "cost/collective_schedule.h"

namespace ingot::cost {

struct CollectiveChoice {
  Algorithm algorithm;
  int64_t piece_bytes = 0;  // of one message, at most
};

// `at_once`: every sum must be made of all its parts in one step (types that would round in between).
CollectiveChoice choose_collective(Collective operation, int64_t bytes, int members, bool at_once);

}  // namespace ingot::cost
