#include "backend/cpu/kernels/optimizer.h"

#include <gtest/gtest.h>

#include "backend/cpu/kernels/embedding.h"
#include "backend/cpu/kernels/kernel_testing.h"

namespace ingot::backend::cpu {
namespace {

using testing::as_workspace;
using testing::bound_of;
using testing::DType;
using testing::random_tensor;
using testing::relative_error;
using testing::TestTensor;
using testing::workspace_of;

TEST(OptimizerTest, AdamwEqualsTheFormula) {
  for (const int64_t n : {1, 37, 16384, 33000}) {
    const TestTensor p0 = random_tensor(DType::kF32, {n}, 1), g = random_tensor(DType::kF32, {n}, 2);
    const TestTensor m0 = random_tensor(DType::kF32, {n}, 3), v0 = random_tensor(DType::kF32, {n}, 4);
    AdamwArgs args{.param = {},
                   .m = {},
                   .v = {},
                   .grad = g.view(),
                   .grad_scale = 0.5F,
                   .learning_rate = 0.01F,
                   .bias_correction1 = 0.19F,
                   .bias_correction2 = 0.0975F,
                   .weight_decay = 0.1F};
    std::vector<double> p, m, v;
    for (int64_t i = 0; i < n; ++i) {
      const double grad = 0.5 * g.at(i), second = std::abs(v0.at(i));
      m.push_back(static_cast<double>(args.beta1) * m0.at(i) + (1 - static_cast<double>(args.beta1)) * grad);
      v.push_back(static_cast<double>(args.beta2) * second +
                  (1 - static_cast<double>(args.beta2)) * grad * grad);
      const double root = std::sqrt(v.back() / static_cast<double>(args.bias_correction2)) + 1e-8;
      p.push_back(p0.at(i) - static_cast<double>(args.learning_rate) *
                                 (m.back() / static_cast<double>(args.bias_correction1) / root +
                                  static_cast<double>(args.weight_decay) * p0.at(i)));
    }
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor param(DType::kF32, {n}), first(DType::kF32, {n}), second(DType::kF32, {n});
      for (int64_t i = 0; i < n; ++i) {
        param.set(i, p0.at(i));
        first.set(i, m0.at(i));
        second.set(i, std::abs(v0.at(i)));
      }
      args.param = param.view();
      args.m = first.view();
      args.v = second.view();
      const std::string before = param.bits() + first.bits() + second.bits();
      args.apply = false;
      adamw(cpu, args);
      EXPECT_TRUE(param.bits() + first.bits() + second.bits() == before);
      args.apply = true;
      adamw(cpu, args);
      EXPECT_LT(relative_error(param, p), 1e-6);
      EXPECT_LT(relative_error(first, m), 1e-6);
      EXPECT_LT(relative_error(second, v), 1e-6);
      EXPECT_TRUE(param.guards_hold() && first.guards_hold() && second.guards_hold());
      return param.bits() + first.bits() + second.bits();
    });
  }
}

TEST(OptimizerTest, SumOfSquaresIsInDoubleAndShowsNan) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t n : {1, 31, 16384, 50000}) {
      TestTensor x = random_tensor(dtype, {n}, 5);
      double expected = 0;
      for (int64_t i = 0; i < n; ++i) expected += x.at(i) * x.at(i);
      testing::for_each_cpu([&](const Cpu& cpu) {
        TestTensor workspace = workspace_of(sum_squares_workspace_bytes(n));
        const double sum = sum_squares(cpu, x.view(), as_workspace(workspace));
        EXPECT_NEAR(sum, expected, 1e-12 * expected);
        EXPECT_TRUE(workspace.guards_hold());
        return std::string(reinterpret_cast<const char*>(&sum), sizeof sum);
      });
      x.set(n / 2, std::nan(""));
      ThreadPool pool(1);
      TestTensor workspace = workspace_of(sum_squares_workspace_bytes(n));
      EXPECT_TRUE(std::isnan(sum_squares({pool}, x.view(), as_workspace(workspace))));
    }
  }
}

TEST(EmbeddingTest, ForwardAndGradientEqualALoop) {
  const int64_t rows = 67, vocabulary = 23, channels = 70, first_id = 5;
  TestTensor ids(DType::kI32, {rows});
  for (int64_t i = 0; i < rows; ++i) ids.set(i, static_cast<double>(i * 11 % 40));
  for (const DType table_type : {DType::kF32, DType::kBF16}) {
    for (const DType y_type : {DType::kF32, DType::kBF16}) {
      const TestTensor table = random_tensor(table_type, {vocabulary, channels}, 1);
      const TestTensor dy = random_tensor(y_type, {rows, channels}, 2);
      const TestTensor old = random_tensor(DType::kF32, {vocabulary, channels}, 3);
      std::vector<double> y(static_cast<size_t>(rows * channels)),
          grad(static_cast<size_t>(vocabulary * channels));
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t id = static_cast<int64_t>(ids.at(r)) - first_id;
        if (id < 0 || id >= vocabulary) continue;
        for (int64_t c = 0; c < channels; ++c) {
          y[static_cast<size_t>(r * channels + c)] = table.at(id * channels + c);
          grad[static_cast<size_t>(id * channels + c)] += dy.at(r * channels + c);
        }
      }
      auto sum = grad;
      for (int64_t i = 0; i < old.size(); ++i) sum[static_cast<size_t>(i)] += old.at(i);
      testing::for_each_cpu([&](const Cpu& cpu) {
        TestTensor out(y_type, {rows, channels}), fresh(DType::kF32, {vocabulary, channels});
        TestTensor added(DType::kF32, {vocabulary, channels});
        for (int64_t i = 0; i < old.size(); ++i) added.set(i, old.at(i));
        fresh.fill_bytes(0xff);
        embedding_forward(cpu, {ids.view(), first_id, table.view(), out.view()});
        embedding_gradient(cpu, {ids.view(), first_id, dy.view(), 0, fresh.view()});
        embedding_gradient(cpu, {ids.view(), first_id, dy.view(), 1, added.view()});
        EXPECT_LT(relative_error(out, y), bound_of(y_type));
        EXPECT_LT(relative_error(fresh, grad), 1e-6);
        EXPECT_LT(relative_error(added, sum), 1e-6);
        EXPECT_TRUE(out.guards_hold() && fresh.guards_hold() && added.guards_hold());
        return out.bits() + fresh.bits() + added.bits();
      });
    }
  }
}

}  // namespace
}  // namespace ingot::backend::cpu
