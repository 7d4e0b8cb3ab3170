#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ingot::tensor {
namespace {

TEST(Half, EveryF16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = float_of_f16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_of_f16(f16_of_float(value)))) << bits;
    } else {
      ASSERT_EQ(f16_of_float(value), half) << bits;
    }
  }
}

TEST(Half, F16RoundsToNearestEven) {
  EXPECT_EQ(f16_of_float(1.0F + 0x1p-11F), f16_of_float(1.0F));  // a tie goes to even
  EXPECT_EQ(float_of_f16(f16_of_float(1.0F + 3 * 0x1p-11F)),
            1.0F + 2 * 0x1p-10F);  // and up where that is even
  EXPECT_EQ(float_of_f16(f16_of_float(0x1p-25F)), 0.0F);
  EXPECT_EQ(float_of_f16(f16_of_float(0x1.8p-24F)), 0x1p-23F);
  EXPECT_EQ(float_of_f16(f16_of_float(65519.0F)), 65504.0F);
  EXPECT_TRUE(std::isinf(float_of_f16(f16_of_float(65520.0F))));
}

TEST(Half, EveryBf16SurvivesAndTiesGoToEven) {
  for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = float_of_bf16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of_float(value)))) << bits;
    } else {
      ASSERT_EQ(bf16_of_float(value), half) << bits;
    }
  }
  EXPECT_EQ(float_of_bf16(bf16_of_float(1.0F + 0x1p-8F)), 1.0F);
  EXPECT_EQ(float_of_bf16(bf16_of_float(1.0F + 3 * 0x1p-8F)), 1.0F + 4 * 0x1p-8F);
  EXPECT_TRUE(std::isinf(float_of_bf16(bf16_of_float(std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace ingot::tensor
