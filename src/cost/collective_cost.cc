#include "cost/collective_cost.h"

namespace ingot::cost {

CollectiveChoice choose_collective(Collective operation, int64_t bytes, int members, bool at_once) {
  constexpr int64_t kSmall = 16 << 10, kPiece = 256 << 10;
  Pattern pattern = at_once ? Pattern::kDirect : Pattern::kRing;
  if (operation == Collective::kAllReduce && bytes <= kSmall) pattern = Pattern::kExchange;
  if (operation == Collective::kBarrier || operation == Collective::kBroadcast) pattern = Pattern::kTree;
  if (operation == Collective::kAllToAll) pattern = Pattern::kDirect;
  return {{{{members, pattern}}}, kPiece};
}

}  // namespace ingot::cost
