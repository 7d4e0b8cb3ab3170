#include "backend/cpu/kernels/norm.h"

#include <gtest/gtest.h>

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

struct Case {
  NormKind kind;
  DType x_type, y_type;
  int64_t rows, channels;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    for (const DType x : {DType::kF32, DType::kBF16}) {
      for (const DType y : {DType::kF32, DType::kBF16}) {
        all.push_back({kind, x, y, 5, 37});
        all.push_back({kind, x, y, 70, 64});
        all.push_back({kind, x, y, 3, 1});
      }
    }
  }
  return all;
}

constexpr double kEpsilon = 1e-5;

struct Statistics {
  double mean = 0, inverse = 0;
};
Statistics statistics(const Case& c, const std::vector<double>& x, int64_t row) {
  Statistics s;
  for (int64_t i = 0; i < c.channels; ++i) s.mean += x[static_cast<size_t>(row * c.channels + i)];
  s.mean = c.kind == NormKind::kRms ? 0 : s.mean / static_cast<double>(c.channels);
  double squares = 0;
  for (int64_t i = 0; i < c.channels; ++i) {
    const double d = x[static_cast<size_t>(row * c.channels + i)] - s.mean;
    squares += d * d;
  }
  s.inverse = 1 / std::sqrt(squares / static_cast<double>(c.channels) + static_cast<double>(1e-5F));
  return s;
}

TEST(NormTest, ForwardEqualsALoop) {
  for (const Case& c : cases()) {
    const TestTensor x = random_tensor(c.x_type, {c.rows, c.channels}, 1, 3);
    const TestTensor delta = random_tensor(c.y_type, {c.rows, c.channels}, 2);
    const TestTensor w = random_tensor(DType::kF32, {c.channels}, 3),
                     b = random_tensor(DType::kF32, {c.channels}, 4);
    TestTensor sum(c.x_type, {c.rows, c.channels});
    for (int64_t i = 0; i < sum.size(); ++i) sum.set(i, x.at(i) + delta.at(i));
    const auto expect = [&](const TestTensor& input, bool bias) {
      std::vector<double> y;
      for (int64_t r = 0; r < c.rows; ++r) {
        const Statistics s = statistics(c, input.values(), r);
        for (int64_t i = 0; i < c.channels; ++i) {
          y.push_back((input.at(r * c.channels + i) - s.mean) * s.inverse * w.at(i) + (bias ? b.at(i) : 0));
        }
      }
      return y;
    };
    const auto plain = expect(x, true), added = expect(sum, false);
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor y(c.y_type, {c.rows, c.channels}), z(c.y_type, {c.rows, c.channels});
      TestTensor x_out(c.x_type, {c.rows, c.channels});
      NormForwardArgs args{.kind = c.kind,
                           .epsilon = static_cast<float>(kEpsilon),
                           .x = x.view(),
                           .delta = {},
                           .x_out = {},
                           .w = w.view(),
                           .b = b.view(),
                           .y = y.view()};
      norm_forward(cpu, args);
      args.delta = delta.view();
      args.x_out = x_out.view();
      args.b = {};
      args.y = z.view();
      norm_forward(cpu, args);
      EXPECT_LT(relative_error(y, plain), bound_of(c.y_type));
      EXPECT_LT(relative_error(z, added), bound_of(c.y_type));
      EXPECT_LT(relative_error(x_out, sum.values()), 1e-6);
      EXPECT_TRUE(y.guards_hold() && z.guards_hold() && x_out.guards_hold());
      return y.bits() + z.bits() + x_out.bits();
    });
  }
}

struct Gradients {
  std::vector<double> dx, dw, db;
};
Gradients gradients(const Case& c, const TestTensor& x, const TestTensor& w, const TestTensor& dy,
                    const TestTensor& residual, const TestTensor& old) {
  Gradients g{{}, old.values(), old.values()};
  const double n = static_cast<double>(c.channels);
  for (int64_t r = 0; r < c.rows; ++r) {
    const Statistics s = statistics(c, x.values(), r);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < c.channels; ++i) {
      const int64_t at = r * c.channels + i;
      const double h = (x.at(at) - s.mean) * s.inverse;
      sum += dy.at(at) * w.at(i);
      dot += dy.at(at) * w.at(i) * h;
      g.dw[static_cast<size_t>(i)] += dy.at(at) * h;
      g.db[static_cast<size_t>(i)] += dy.at(at);
    }
    for (int64_t i = 0; i < c.channels; ++i) {
      const int64_t at = r * c.channels + i;
      const double h = (x.at(at) - s.mean) * s.inverse, mean = c.kind == NormKind::kRms ? 0 : sum / n;
      g.dx.push_back(s.inverse * (dy.at(at) * w.at(i) - mean - h * dot / n) + residual.at(at));
    }
  }
  return g;
}

TEST(NormTest, BackwardEqualsALoop) {
  for (const Case& c : cases()) {
    const TestTensor x = random_tensor(c.x_type, {c.rows, c.channels}, 1, 3);
    const TestTensor dy = random_tensor(c.y_type, {c.rows, c.channels}, 2);
    const TestTensor w = random_tensor(DType::kF32, {c.channels}, 3),
                     old = random_tensor(DType::kF32, {c.channels}, 4);
    for (const DType dx_type : {DType::kF32, DType::kBF16}) {
      const TestTensor residual = random_tensor(dx_type, {c.rows, c.channels}, 5);
      const Gradients expected = gradients(c, x, w, dy, residual, old);
      testing::for_each_cpu([&](const Cpu& cpu) {
        TestTensor dx(dx_type, {c.rows, c.channels}), dw(DType::kF32, {c.channels}),
            db(DType::kF32, {c.channels});
        TestTensor alone(DType::kF32, {c.channels}), same(dx_type, {c.rows, c.channels});
        for (int64_t i = 0; i < c.channels; ++i) dw.set(i, old.at(i));
        for (int64_t i = 0; i < c.channels; ++i) db.set(i, old.at(i));
        TestTensor workspace = workspace_of(norm_backward_workspace_bytes(c.rows, c.channels));
        NormBackwardArgs args{.kind = c.kind,
                              .epsilon = static_cast<float>(kEpsilon),
                              .x = x.view(),
                              .w = w.view(),
                              .dy = dy.view(),
                              .residual_gradient = residual.view(),
                              .dx = dx.view(),
                              .beta = 1,
                              .dw = dw.view(),
                              .db = db.view(),
                              .workspace = as_workspace(workspace)};
        norm_backward(cpu, args);
        EXPECT_LT(relative_error(dx, expected.dx), bound_of(dx_type));
        EXPECT_LT(relative_error(dw, expected.dw), 1e-5);
        EXPECT_LT(relative_error(db, expected.db), 1e-5);
        // The same in two calls, as input and weight part of a split backward, from nothing.
        args.dw = args.db = {};
        args.dx = same.view();
        norm_backward(cpu, args);
        EXPECT_TRUE(same.bits() == dx.bits());
        args.dx = args.residual_gradient = {};
        args.dw = alone.view();
        args.beta = 0;
        norm_backward(cpu, args);
        for (int64_t i = 0; i < c.channels; ++i) EXPECT_NEAR(alone.at(i), dw.at(i) - old.at(i), 1e-4);
        EXPECT_TRUE(workspace.guards_hold() && dx.guards_hold() && dw.guards_hold() && db.guards_hold());
        return dx.bits() + dw.bits() + db.bits() + alone.bits();
      });
    }
  }
}

}  // namespace
}  // namespace ingot::backend::cpu
