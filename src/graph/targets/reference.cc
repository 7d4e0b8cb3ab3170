#include "graph/targets/targets.h"

namespace ingot::graph {

// Plain loops over the operands as they are: nothing fused, packed or set aside.
const Target& reference_target() {
  static const Target target{
      .name = "reference",
      .alignment = tensor::kAlignment,
      .space = {},
      .precisions = {Precision::kF64, Precision::kF32, Precision::kBF16},
      .fusions = {},
      .weight_layouts = nullptr,
      .packed = {},
      .workspace_bytes = nullptr,
      .casts_in_pack = true,
  };
  return target;
}

}  // namespace ingot::graph
