#pragma once
// The targets that this build can plan for, one file each. To add one: a file, a line here, a row in
// targets.cc.

#include "graph/target.h"

namespace ingot::graph {

const Target& reference_target();
const Target& cpu_target();

}  // namespace ingot::graph
