#include "train/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ingot::train {
namespace {

TEST(LearningRate, WarmsUpLinearlyAndReachesThePeakInTheLastWarmUpStep) {
  const LrSchedule schedule{.peak = 1e-3, .floor = 1e-4, .warmup_steps = 100, .total_steps = 2000};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 1e-5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 99), 1e-3);
}

TEST(LearningRate, CosineIsHalfWayInTheMiddleAndEndsAtTheFloor) {
  const LrSchedule schedule{.peak = 1e-3, .floor = 1e-4, .warmup_steps = 100, .total_steps = 2100};
  EXPECT_NEAR(learning_rate(schedule, 1100), 5.5e-4, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 2100), 1e-4, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 9999), 1e-4, 1e-12);
}

TEST(LearningRate, WsdStaysUpForFourFifthsThenFallsByOneMinusSqrt) {
  const LrSchedule schedule{.shape = LrShape::kWsd, .peak = 1.0, .floor = 0, .total_steps = 1000};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 799), 1.0);
  EXPECT_NEAR(learning_rate(schedule, 900), 1 - std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 1000), 0.0, 1e-12);
}

TEST(LearningRate, OtherShapes) {
  EXPECT_DOUBLE_EQ(learning_rate({.shape = LrShape::kConstant, .peak = 2, .total_steps = 10}, 7), 2);
  EXPECT_NEAR(learning_rate({.shape = LrShape::kLinear, .peak = 2, .floor = 0, .total_steps = 10}, 5), 1,
              1e-12);
  EXPECT_NEAR(learning_rate(
                  {.shape = LrShape::kInverseSqrt, .peak = 2, .warmup_steps = 100, .total_steps = 1000}, 400),
              1, 1e-12);
}

}  // namespace
}  // namespace ingot::train
