#include "backend/cpu/kernels/elementwise.h"

#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/kernels/kernel_testing.h"

namespace ingot::backend::cpu {
namespace {

using testing::bound_of;
using testing::DType;
using testing::random_tensor;
using testing::relative_error;
using testing::TensorView;
using testing::TestTensor;

constexpr double kPi = 3.14159265358979323846;

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double value_of(Activation kind, double x) {
  switch (kind) {
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return x * normal_cdf(x);
    default:
      return x * sigmoid(x);
  }
}
double derivative_of(Activation kind, double x) {
  const double h = 1e-5;
  return (value_of(kind, x + h) - value_of(kind, x - h)) / (2 * h);
}

std::vector<double> map(const TestTensor& a, const std::function<double(int64_t)>& f) {
  std::vector<double> out;
  for (int64_t i = 0; i < a.size(); ++i) out.push_back(f(i));
  return out;
}

TEST(ActivationTest, EqualsTheFormula) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const double scale : {1.0, 12.0, 300.0}) {
      const TestTensor x = random_tensor(dtype, {11, 1537}, 1, scale),
                       dy = random_tensor(dtype, {11, 1537}, 2);
      for (const Activation kind : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu}) {
        const auto y_expected = map(x, [&](int64_t i) { return value_of(kind, x.at(i)); });
        const auto dx_expected = map(x, [&](int64_t i) { return dy.at(i) * derivative_of(kind, x.at(i)); });
        testing::for_each_cpu([&](const Cpu& cpu) {
          TestTensor y(dtype, {11, 1537}), dx(dtype, {11, 1537});
          activation_forward(cpu, kind, x.view(), y.view());
          activation_backward(cpu, kind, x.view(), dy.view(), dx.view());
          EXPECT_LT(relative_error(y, y_expected), bound_of(dtype)) << static_cast<int>(kind) << " " << scale;
          EXPECT_LT(relative_error(dx, dx_expected), bound_of(dtype))
              << static_cast<int>(kind) << " " << scale;
          EXPECT_TRUE(y.guards_hold() && dx.guards_hold());
          return y.bits() + dx.bits();
        });
      }
    }
  }
}

TEST(ActivationTest, NanStaysNan) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TestTensor x = random_tensor(dtype, {40}, 1);
    for (const int64_t i : {0, 17, 39}) x.set(i, std::nan(""));
    for (const Activation kind : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu}) {
      testing::for_each_cpu([&](const Cpu& cpu) {
        TestTensor y(dtype, {40}), dx(dtype, {40});
        activation_forward(cpu, kind, x.view(), y.view());
        activation_backward(cpu, kind, x.view(), x.view(), dx.view());
        for (int64_t i = 0; i < 40; ++i) {
          EXPECT_EQ(std::isnan(y.at(i)), std::isnan(x.at(i))) << i;
          EXPECT_EQ(std::isnan(dx.at(i)), std::isnan(x.at(i))) << i;
        }
        return y.bits();
      });
    }
  }
}

TEST(ActivationTest, SwigluEqualsTheFormula) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const tensor::Shape shape{3, 77};
    const TestTensor gate = random_tensor(dtype, shape, 1, 6), up = random_tensor(dtype, shape, 2);
    const TestTensor dy = random_tensor(dtype, shape, 3);
    const auto silu = [&](int64_t i) { return value_of(Activation::kSilu, gate.at(i)); };
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor y(dtype, shape), dgate(dtype, shape), dup(dtype, shape);
      swiglu_forward(cpu, {gate.view(), up.view(), y.view(), {}, {}, {}});
      swiglu_backward(cpu, {gate.view(), up.view(), {}, dy.view(), dgate.view(), dup.view()});
      EXPECT_LT(relative_error(y, map(gate, [&](int64_t i) { return silu(i) * up.at(i); })), bound_of(dtype));
      EXPECT_LT(relative_error(dup, map(gate, [&](int64_t i) { return silu(i) * dy.at(i); })),
                bound_of(dtype));
      EXPECT_LT(relative_error(dgate, map(gate,
                                          [&](int64_t i) {
                                            return dy.at(i) * up.at(i) *
                                                   derivative_of(Activation::kSilu, gate.at(i));
                                          })),
                bound_of(dtype));
      EXPECT_TRUE(y.guards_hold() && dgate.guards_hold() && dup.guards_hold());
      return y.bits() + dgate.bits() + dup.bits();
    });
  }
}

TEST(ElementwiseTest, AddAccumulateCastAndZero) {
  for (const DType a_type : {DType::kF32, DType::kBF16}) {
    for (const DType b_type : {DType::kF32, DType::kBF16}) {
      const TestTensor a = random_tensor(a_type, {9, 41}, 1), b = random_tensor(b_type, {9, 41}, 2);
      testing::for_each_cpu([&](const Cpu& cpu) {
        TestTensor y(a_type, {9, 41}), c(b_type, {9, 41}), z(a_type, {9, 41});
        add(cpu, a.view(), b.view(), y.view());
        cast(cpu, a.view(), c.view(), 1.0F);
        EXPECT_LT(relative_error(y, map(a, [&](int64_t i) { return a.at(i) + b.at(i); })), bound_of(a_type));
        TestTensor rounded(b_type, {9, 41});
        for (int64_t i = 0; i < a.size(); ++i) rounded.set(i, a.at(i));
        EXPECT_TRUE(c.bits() == rounded.bits());
        TestTensor third(b_type, {9, 41});
        cast(cpu, a.view(), third.view(), 1.0F / 3);
        EXPECT_LT(relative_error(third, map(a, [&](int64_t i) { return a.at(i) / 3; })), bound_of(b_type));
        zero(cpu, z.view());
        accumulate(cpu, -2.0F, b.view(), z.view());
        EXPECT_LT(relative_error(z, map(a, [&](int64_t i) { return -2 * b.at(i); })), bound_of(a_type));
        EXPECT_TRUE(y.guards_hold() && c.guards_hold() && z.guards_hold());
        return y.bits() + c.bits() + z.bits();
      });
    }
  }
}

TEST(ElementwiseTest, CastRoundsToNearestEvenAndKeepsNan) {
  ThreadPool pool(1);
  const Cpu cpu{pool};
  std::vector<float> values;
  for (uint32_t i = 0; i < 4096; ++i) values.push_back(std::bit_cast<float>(i * 1048583U + 32768U));
  values.push_back(std::bit_cast<float>(0x7f800001U));  // a NaN whose upper half alone is infinity
  values.push_back(std::numeric_limits<float>::infinity());
  TestTensor to(DType::kBF16, {static_cast<int64_t>(values.size())});
  cast(cpu, {values.data(), DType::kF32, {static_cast<int64_t>(values.size())}}, to.view(), 1.0F);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(to.view().as<Bf16>()[i].bits, to_bf16(values[i]).bits) << i;
}

TEST(DropoutTest, IsBitForBitWhatTheScalarGeneratorDraws) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t channels : {1, 6, 64, 131}) {
      const int64_t batch = 2, seq_len = 5;
      const TestTensor x = random_tensor(dtype, {batch, seq_len, channels}, 1);
      TestTensor sample(DType::kI64, {batch}), position(DType::kI32, {batch, seq_len});
      sample.view().as<int64_t>()[0] = 7;
      sample.view().as<int64_t>()[1] = int64_t{1} << 40;
      for (int64_t i = 0; i < position.size(); ++i) position.set(i, static_cast<double>(3 * i % 1000 + 1));
      const PhiloxKey key = random_key(3, RandomPurpose::kDropout, 9);
      const float rate = 0.3F;
      testing::for_each_cpu([&](const Cpu& cpu) {
        TestTensor y(dtype, {batch, seq_len, channels}), expected(dtype, {batch, seq_len, channels});
        dropout(cpu, {.key = key,
                      .rate = rate,
                      .x = x.view(),
                      .position = position.view(),
                      .sample = sample.view(),
                      .channels = channels + 3,
                      .channel_offset = 2,
                      .y = y.view()});
        for (int64_t i = 0; i < x.size(); ++i) {
          const int64_t row = i / channels;
          const auto element = static_cast<uint64_t>(static_cast<int64_t>(position.at(row)) * (channels + 3) +
                                                     2 + i % channels);
          const auto id = static_cast<uint64_t>(sample.view().as<int64_t>()[row / seq_len]);
          const bool kept = random_uniform(key, element, id) >= rate;
          expected.set(i, kept ? static_cast<double>(static_cast<float>(x.at(i)) * (1 / (1 - rate))) : 0.0);
        }
        EXPECT_TRUE(y.bits() == expected.bits()) << channels;
        EXPECT_TRUE(y.guards_hold());
        return y.bits();
      });
    }
  }
}

TEST(RotaryTest, TurnsPairsByTheirAngleAndBack) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t head_size : {2, 10, 64}) {
      const int64_t half = head_size / 2, width = 3 * head_size;
      const TestTensor x = random_tensor(dtype, {2, 7, width}, 1);
      TestTensor inv_freq(DType::kF32, {half}), position(DType::kI32, {2, 7}), doc_start(DType::kI32, {2, 7});
      for (int64_t i = 0; i < half; ++i) {
        inv_freq.set(i, std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_size)));
      }
      for (int64_t i = 0; i < 14; ++i) position.set(i, static_cast<double>(i * i * 40));
      for (int64_t i = 0; i < 14; ++i) doc_start.set(i, static_cast<double>(i));
      const auto expected = map(x, [&](int64_t at) {
        const int64_t row = at / width, c = at % head_size, i = c % half;
        const float p = static_cast<float>(position.at(row) - doc_start.at(row));
        const double angle = static_cast<double>(p * static_cast<float>(inv_freq.at(i)));
        const double other = x.at(c < half ? at + half : at - half);
        return x.at(at) * std::cos(angle) + (c < half ? -other : other) * std::sin(angle);
      });
      testing::for_each_cpu([&](const Cpu& cpu) {
        TestTensor y(dtype, {2, 7, width}), back(dtype, {2, 7, width});
        rotary(cpu, {.x = x.view(),
                     .head_size = head_size,
                     .inv_freq = inv_freq.view(),
                     .position = position.view(),
                     .doc_start = doc_start.view(),
                     .sign = 1,
                     .y = y.view()});
        rotary(cpu, {.x = y.view(),
                     .head_size = head_size,
                     .inv_freq = inv_freq.view(),
                     .position = position.view(),
                     .doc_start = doc_start.view(),
                     .sign = -1,
                     .y = back.view()});
        EXPECT_LT(relative_error(y, expected), bound_of(dtype)) << head_size;
        EXPECT_LT(relative_error(back, x.values()), 2 * bound_of(dtype)) << head_size;
        EXPECT_TRUE(y.guards_hold() && back.guards_hold());
        return y.bits() + back.bits();
      });
    }
  }
}

}  // namespace
}  // namespace ingot::backend::cpu
