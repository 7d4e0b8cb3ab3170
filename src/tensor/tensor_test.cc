#include "tensor/tensor.h"

#include <gtest/gtest.h>

namespace ingot::tensor {
namespace {

TEST(Shape, CountsElementsAndRows) {
  const Shape shape{4, 3, 5};
  EXPECT_EQ(shape.elements(), 60);
  EXPECT_EQ(shape.rows(), 12);
  EXPECT_EQ(shape.to_string(), "[4, 3, 5]");
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(shape.with(1, 7), (Shape{4, 7, 5}));
}

TEST(DType, NamesGoBothWays) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(*dtype_of(name_of(dtype)), dtype);
  }
  EXPECT_FALSE(dtype_of("f31"));
}

TEST(Buffer, IsAlignedZeroedAndMovable) {
  Buffer buffer = Buffer::allocate(int64_t{3} << 20).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment, 0U);
  EXPECT_EQ(buffer.data()[buffer.bytes() - 1], std::byte{0});
  std::byte* data = buffer.data();
  const Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.data(), data);
}

TEST(Buffer, SaysHowMuchWasAskedWhenRefused) {
  const auto refused = Buffer::allocate(int64_t{1} << 60);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("1152921504606846976"), std::string::npos);
}

}  // namespace
}  // namespace ingot::tensor
