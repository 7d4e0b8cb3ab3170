#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ingot::train {
namespace {

double blend(const LrSchedule& schedule, double share) {
  return schedule.floor + share * (schedule.peak - schedule.floor);
}

}  // namespace

double learning_rate(const LrSchedule& schedule, int64_t step) {
  const auto at = static_cast<double>(step);
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  if (step < schedule.warmup_steps) return schedule.peak * (at + 1) / warmup;
  const double after = std::max(1.0, static_cast<double>(schedule.total_steps) - warmup);
  const double ratio = std::min(1.0, (at - warmup) / after);
  switch (schedule.shape) {
    case LrShape::kCosine:
      return blend(schedule, 0.5 * (1 + std::cos(std::numbers::pi * ratio)));
    case LrShape::kLinear:
      return blend(schedule, 1 - ratio);
    case LrShape::kConstant:
      return schedule.peak;
    case LrShape::kInverseSqrt: {
      const double from = std::max(1.0, warmup);
      return std::max(schedule.floor, schedule.peak * std::sqrt(from / std::max(from, at)));
    }
    case LrShape::kWsd: {
      const double begin = static_cast<double>(schedule.total_steps) * (1 - schedule.decay_fraction);
      if (at < begin) return schedule.peak;
      const double length = std::max(1.0, static_cast<double>(schedule.total_steps) - begin);
      return blend(schedule, 1 - std::sqrt(std::min(1.0, (at - begin) / length)));
    }
  }
  return schedule.peak;
}

}  // namespace ingot::train
