#pragma once
// Learning rate as a function of the step. Formulas as published by nanoGPT, llm.c and Megatron
// (docs/howto/train.md).

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace ingot::train {

enum class LrShape : uint8_t { kCosine, kWsd, kLinear, kConstant, kInverseSqrt };

struct LrSchedule {
  LrShape shape = LrShape::kCosine;
  double peak = 0;
  double floor = 0;  // min_lr
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  double decay_fraction = 0.2;  // wsd: the last part of the steps, 1 - sqrt
};

// Of the update that ends step `step` (the first is 0). Warm-up is linear and reaches the peak in its last
// step.
double learning_rate(const LrSchedule& schedule, int64_t step);

}  // namespace ingot::train
