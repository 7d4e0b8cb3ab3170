#include "backend/cpu/kernels/linear.h"

#include <gtest/gtest.h>

#include "backend/cpu/kernels/kernel_testing.h"

namespace ingot::backend::cpu {
namespace {

using testing::as_workspace;
using testing::bound_of;
using testing::DType;
using testing::random_tensor;
using testing::relative_error;
using testing::Shape;
using testing::TestTensor;
using testing::workspace_of;

struct Case {
  DType dtype;
  int64_t rows, in, out;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, in, out] : {std::array<int64_t, 3>{1, 1, 1},
                                        {7, 3, 5},
                                        {13, 65, 17},
                                        {64, 64, 128},
                                        {130, 33, 97},
                                        {31, 128, 65},
                                        {300, 16, 210},
                                        {9, 4099, 70}}) {
      all.push_back({dtype, rows, in, out});
    }
  }
  return all;
}

std::span<std::byte> bytes_of(const TestTensor& t) { return as_workspace(t); }

// y[R, N] = a[R, K] · w + bias + addend with w[n * n_step + k * k_step]
std::vector<double> multiply(const TestTensor& a, const TestTensor& w, int64_t columns, int64_t n_step,
                             int64_t k_step, const TestTensor* bias, const TestTensor* addend) {
  const int64_t rows = a.view().shape.rows(), reduction = a.view().shape.last();
  std::vector<double> y;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < columns; ++n) {
      double sum =
          (bias != nullptr ? bias->at(n) : 0) + (addend != nullptr ? addend->at(r * columns + n) : 0);
      for (int64_t k = 0; k < reduction; ++k) sum += a.at(r * reduction + k) * w.at(n * n_step + k * k_step);
      y.push_back(sum);
    }
  }
  return y;
}

TEST(LinearTest, ForwardEqualsALoop) {
  for (const Case& c : cases()) {
    const TestTensor x = random_tensor(c.dtype, {c.rows, c.in}, 1),
                     w = random_tensor(c.dtype, {c.out, c.in}, 2);
    const TestTensor bias = random_tensor(DType::kF32, {c.out}, 3),
                     addend = random_tensor(c.dtype, {c.rows, c.out}, 4);
    const auto plain = multiply(x, w, c.out, c.in, 1, nullptr, nullptr);
    const auto full = multiply(x, w, c.out, c.in, 1, &bias, &addend);
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor packed(DType::kU8, {packed_weight_bytes(c.dtype, WeightUse::kForward, c.out, c.in)});
      pack_weight(cpu, {.w = w.view(), .dtype = c.dtype, .forward = bytes_of(packed), .backward = {}});
      TestTensor y(c.dtype, {c.rows, c.out}), z(c.dtype, {c.rows, c.out}), wide(DType::kF32, {c.rows, c.out});
      product(cpu, {.a = x.view(), .packed = bytes_of(packed), .bias = {}, .addend = {}, .y = y.view()});
      product(cpu, {x.view(), bytes_of(packed), bias.view(), addend.view(), z.view()});
      product(cpu, {.a = x.view(), .packed = bytes_of(packed), .bias = {}, .addend = {}, .y = wide.view()});
      EXPECT_LT(relative_error(y, plain), bound_of(c.dtype)) << c.rows << " " << c.in << " " << c.out;
      EXPECT_LT(relative_error(z, full), bound_of(c.dtype)) << c.rows << " " << c.in << " " << c.out;
      EXPECT_LT(relative_error(wide, plain), 1e-5) << c.rows << " " << c.in << " " << c.out;
      EXPECT_TRUE(packed.guards_hold() && y.guards_hold() && z.guards_hold() && wide.guards_hold());
      return y.bits() + z.bits() + wide.bits();
    });
  }
}

TEST(LinearTest, InputGradientEqualsALoop) {
  for (const Case& c : cases()) {
    const TestTensor dy = random_tensor(c.dtype, {c.rows, c.out}, 5),
                     w = random_tensor(DType::kF32, {c.out, c.in}, 6);
    TestTensor rounded(c.dtype, {c.out, c.in});
    for (int64_t i = 0; i < w.size(); ++i) rounded.set(i, w.at(i));
    const auto expected = multiply(dy, rounded, c.in, 1, c.in, nullptr, nullptr);
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor forward(DType::kU8, {packed_weight_bytes(c.dtype, WeightUse::kForward, c.out, c.in)});
      TestTensor backward(DType::kU8, {packed_weight_bytes(c.dtype, WeightUse::kBackward, c.out, c.in)});
      pack_weight(cpu, {w.view(), c.dtype, bytes_of(forward), bytes_of(backward)});
      TestTensor dx(c.dtype, {c.rows, c.in});
      product(cpu, {.a = dy.view(), .packed = bytes_of(backward), .bias = {}, .addend = {}, .y = dx.view()});
      EXPECT_LT(relative_error(dx, expected), bound_of(c.dtype)) << c.rows << " " << c.in << " " << c.out;
      EXPECT_TRUE(forward.guards_hold() && backward.guards_hold() && dx.guards_hold());
      return forward.bits() + backward.bits() + dx.bits();
    });
  }
}

TEST(LinearTest, WeightGradientEqualsALoop) {
  for (const Case& c : cases()) {
    const TestTensor x = random_tensor(c.dtype, {c.rows, c.in}, 7),
                     dy = random_tensor(c.dtype, {c.rows, c.out}, 8);
    const TestTensor old = random_tensor(DType::kF32, {c.out, c.in}, 9);
    std::vector<double> dw(static_cast<size_t>(c.out * c.in)), db(static_cast<size_t>(c.out));
    for (int64_t o = 0; o < c.out; ++o) {
      for (int64_t r = 0; r < c.rows; ++r) {
        db[static_cast<size_t>(o)] += dy.at(r * c.out + o);
        for (int64_t i = 0; i < c.in; ++i) {
          dw[static_cast<size_t>(o * c.in + i)] += dy.at(r * c.out + o) * x.at(r * c.in + i);
        }
      }
    }
    auto sum = dw;
    for (int64_t i = 0; i < old.size(); ++i) sum[static_cast<size_t>(i)] += old.at(i);
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor workspace = workspace_of(weight_gradient_workspace_bytes(c.dtype, c.rows, c.out, c.in));
      TestTensor fresh(DType::kF32, {c.out, c.in}), added(DType::kF32, {c.out, c.in}),
          bias(DType::kF32, {c.out});
      fresh.fill_bytes(0xff);
      bias.fill_bytes(0xff);
      for (int64_t i = 0; i < old.size(); ++i) added.set(i, old.at(i));
      weight_gradient(cpu, {x.view(), dy.view(), 0, fresh.view(), bias.view(), as_workspace(workspace)});
      weight_gradient(cpu, {x.view(), dy.view(), 1, added.view(), {}, as_workspace(workspace)});
      EXPECT_LT(relative_error(fresh, dw), 1e-5) << c.rows << " " << c.in << " " << c.out;
      EXPECT_LT(relative_error(bias, db), 1e-5) << c.rows << " " << c.in << " " << c.out;
      EXPECT_LT(relative_error(added, sum), 1e-5) << c.rows << " " << c.in << " " << c.out;
      EXPECT_TRUE(workspace.guards_hold() && fresh.guards_hold() && added.guards_hold() &&
                  bias.guards_hold());
      return fresh.bits() + added.bits() + bias.bits();
    });
  }
}

TEST(Bf16Test, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000U)).bits, 0x3f80);  // a tie goes to even
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000U)).bits, 0x3f82);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x7f7fffffU)).bits, 0x7f80);  // beyond the greatest: infinity
  EXPECT_TRUE(std::isnan(to_f32(to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace
}  // namespace ingot::backend::cpu
