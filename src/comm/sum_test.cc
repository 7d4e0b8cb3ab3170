#include "comm/sum.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tensor/half.h"

namespace ingot::comm {
namespace {

using tensor::DType;

TEST(Sum, AddsInIndexOrder) {
  // (1e8 + -1e8) + 1 = 1 in float32, while 1e8 + (-1e8 + 1) = 0.
  const std::array<float, 1> a = {1e8F}, b = {-1e8F}, c = {1.0F};
  std::array<float, 1> out{};
  const std::array<const void*, 3> in_order = {a.data(), b.data(), c.data()};
  const std::array<void*, 1> outputs = {out.data()};
  sum_in_order(DType::kF32, in_order, 0, 1, outputs, 0);
  EXPECT_EQ(out[0], 1.0F);
  const std::array<const void*, 3> other_order = {c.data(), b.data(), a.data()};
  sum_in_order(DType::kF32, other_order, 0, 1, outputs, 0);
  EXPECT_EQ(out[0], 0.0F);
}

TEST(Sum, SixteenBitTypesAddInFloatAndRoundOnce) {
  // Rounded after each addition, 256 + 0.75 + 0.75 stays 256 in bf16; in float32 it is 257.5, which rounds to
  // 258.
  const std::array<uint16_t, 1> big = {tensor::bf16_of_float(256)}, small = {tensor::bf16_of_float(0.75F)};
  std::array<uint16_t, 1> out{};
  const std::array<const void*, 3> parts = {big.data(), small.data(), small.data()};
  const std::array<void*, 1> outputs = {out.data()};
  sum_in_order(DType::kBF16, parts, 0, 1, outputs, 0);
  EXPECT_EQ(tensor::float_of_bf16(out[0]), 258.0F);
}

TEST(Sum, TwoPartsMayBeAddedOverEitherOfThem) {
  for (int over = 0; over < 3; ++over) {
    std::vector<std::vector<float>> data = {{1e8F, 2, 3}, {-1e8F, 4, 0.5F}, {0, 0, 0}};
    const std::array<const void*, 2> parts = {data[0].data(), data[1].data()};
    const std::array<void*, 1> outputs = {data[static_cast<size_t>(over)].data()};
    sum_in_order(DType::kF32, parts, 0, 3, outputs, 0);
    EXPECT_EQ(data[static_cast<size_t>(over)], (std::vector<float>{0, 6, 3.5F})) << over;
  }
}

TEST(Sum, TakesARangeAndWritesItElsewhereToEveryOutput) {
  const std::vector<int64_t> a = {1, 2, 3, 4, 5}, b = {10, 20, 30, 40, 50};
  std::vector<int64_t> x(3, -1), y(3, -1);
  const std::array<const void*, 2> parts = {a.data(), b.data()};
  const std::array<void*, 2> outputs = {x.data(), y.data()};
  sum_in_order(DType::kI64, parts, 2, 2, outputs, 1);
  EXPECT_EQ(x, (std::vector<int64_t>{-1, 33, 44}));
  EXPECT_EQ(y, x);
}

}  // namespace
}  // namespace ingot::comm
