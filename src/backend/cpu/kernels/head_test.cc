#include "backend/cpu/kernels/head.h"

#include <gtest/gtest.h>

#include "backend/cpu/kernels/kernel_testing.h"

namespace ingot::backend::cpu {
namespace {

using testing::as_workspace;
using testing::bound_of;
using testing::DType;
using testing::random_tensor;
using testing::relative_error;
using testing::TensorView;
using testing::TestTensor;
using testing::workspace_of;

struct Problem {
  Problem(DType type, int64_t r, int64_t c, int64_t v)
      : dtype(type),
        rows(r),
        channels(c),
        vocabulary(v),
        x(random_tensor(type, {r, c}, 1)),
        w(random_tensor(type, {v, c}, 2)),
        labels(DType::kI32, {r}),
        mask(DType::kF32, {r}),
        old(random_tensor(DType::kF32, {v, c}, 3)) {
    for (int64_t i = 0; i < r; ++i) {
      labels.set(i, static_cast<double>(i * 7 % v));
      mask.set(i, i % 5 == 3 ? 0.0 : 1.0);
    }
    if (r > 2) labels.set(1, -1);
    if (r > 2) labels.set(2, static_cast<double>(v));
    solve();
  }

  void solve() {
    dx.assign(static_cast<size_t>(rows * channels), 0);
    dw = old.values();
    for (int64_t r = 0; r < rows; ++r) {
      const auto label = static_cast<int64_t>(labels.at(r));
      if (mask.at(r) == 0 || label < 0 || label >= vocabulary) continue;
      std::vector<double> logits(static_cast<size_t>(vocabulary));
      double sum = 0;
      for (int64_t v = 0; v < vocabulary; ++v) {
        for (int64_t c = 0; c < channels; ++c) {
          logits[static_cast<size_t>(v)] += x.at(r * channels + c) * w.at(v * channels + c);
        }
        sum += std::exp(logits[static_cast<size_t>(v)]);
      }
      loss += std::log(sum) - logits[static_cast<size_t>(label)];
      tokens += 1;
      for (int64_t v = 0; v < vocabulary; ++v) {
        const double g = scale * (std::exp(logits[static_cast<size_t>(v)]) / sum - (v == label ? 1 : 0));
        for (int64_t c = 0; c < channels; ++c) {
          dx[static_cast<size_t>(r * channels + c)] += g * w.at(v * channels + c);
          dw[static_cast<size_t>(v * channels + c)] += g * x.at(r * channels + c);
        }
      }
    }
  }

  DType dtype;
  int64_t rows, channels, vocabulary;
  TestTensor x, w, labels, mask, old;
  static constexpr double scale = 0.25;
  double loss = 0, tokens = 0;
  std::vector<double> dx, dw;
};

TEST(HeadTest, EqualsALoop) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, channels, vocabulary] :
         {std::array<int64_t, 3>{1, 1, 2}, {5, 3, 65}, {70, 48, 129}, {600, 16, 33}, {20, 8, 4201}}) {
      const Problem p(dtype, rows, channels, vocabulary);
      testing::for_each_cpu([&](const Cpu& cpu) {
        TestTensor forward(DType::kU8,
                           {packed_weight_bytes(dtype, WeightUse::kForward, vocabulary, channels)});
        TestTensor backward(DType::kU8,
                            {packed_weight_bytes(dtype, WeightUse::kBackward, vocabulary, channels)});
        pack_weight(cpu, {p.w.view(), dtype, as_workspace(forward), as_workspace(backward)});
        TestTensor dx(dtype, {rows, channels}), dw(DType::kF32, {vocabulary, channels});
        for (int64_t i = 0; i < p.old.size(); ++i) dw.set(i, p.old.at(i));
        TestTensor workspace = workspace_of(head_workspace_bytes(dtype, rows, channels, vocabulary, true));
        HeadArgs args{.x = p.x.view(),
                      .part = whole_vocabulary(vocabulary),
                      .forward = as_workspace(forward),
                      .backward = as_workspace(backward),
                      .labels = p.labels.view(),
                      .mask = p.mask.view(),
                      .statistics = {},
                      .scale = static_cast<float>(Problem::scale),
                      .dx = dx.view(),
                      .beta = 1,
                      .dw = dw.view(),
                      .workspace = as_workspace(workspace)};
        const HeadResult result = head_cross_entropy(cpu, args);
        const double bound = bound_of(dtype);
        EXPECT_NEAR(result.loss_sum, p.loss, bound * p.loss) << rows << " " << channels << " " << vocabulary;
        EXPECT_EQ(result.tokens, p.tokens);
        // Logits and their gradients are rounded to bf16 before the products that read them.
        EXPECT_LT(relative_error(dx, p.dx), dtype == DType::kBF16 ? 6e-3 : 1e-5) << rows << " " << vocabulary;
        EXPECT_LT(relative_error(dw, p.dw), bound) << rows << " " << channels << " " << vocabulary;
        TestTensor small = workspace_of(head_workspace_bytes(dtype, rows, channels, vocabulary, false));
        args.dx = {};
        args.dw = {};
        args.workspace = as_workspace(small);
        EXPECT_EQ(head_cross_entropy(cpu, args).loss_sum, result.loss_sum);
        EXPECT_TRUE(workspace.guards_hold() && small.guards_hold() && dx.guards_hold() && dw.guards_hold());
        return dx.bits() + dw.bits() + std::to_string(result.loss_sum);
      });
    }
  }
}

// A table cut by rows over ranks: each part's loss is the whole's, dx is the sum of the parts', and the rows
// of dw are its own. The last parts hold fewer rows, or none but padding.
class HeadParts {
 public:
  HeadParts(const Problem& problem, int64_t parts) : p_(problem), parts_(parts) {}

  std::string check(const Cpu& cpu) const {
    const int64_t stored = (p_.vocabulary + parts_ - 1) / parts_;
    TestTensor all(DType::kF32, {p_.rows, 3 * parts_});
    for (int64_t part = 0; part < parts_; ++part) {
      TestTensor own(DType::kF32, {p_.rows, 3});
      Part of(*this, cpu, part * stored, stored, false);
      head_statistics(cpu, of.args, own.view());
      for (int64_t i = 0; i < own.size(); ++i) all.set((i / 3 * parts_ + part) * 3 + i % 3, own.at(i));
      EXPECT_TRUE(of.workspace.guards_hold() && own.guards_hold());
    }
    std::string bits = all.bits();
    std::vector<double> dx(p_.dx.size(), 0);
    double loss = 0;
    for (int64_t part = 0; part < parts_; ++part) {
      Part of(*this, cpu, part * stored, stored, true);
      of.args.statistics = all.view();
      const HeadResult result = head_cross_entropy(cpu, of.args);
      EXPECT_NEAR(result.loss_sum, p_.loss, bound_of(p_.dtype) * p_.loss);
      EXPECT_EQ(result.tokens, p_.tokens);
      if (part == 0) loss = result.loss_sum;
      EXPECT_EQ(result.loss_sum, loss) << "the same bits on every part";
      for (size_t i = 0; i < dx.size(); ++i) dx[i] += of.dx.at(static_cast<int64_t>(i));
      expect_rows_of(of.dw, part * stored);
      EXPECT_TRUE(of.workspace.guards_hold() && of.dx.guards_hold() && of.dw.guards_hold());
      bits += of.dx.bits() + of.dw.bits();
    }
    TestTensor sum(DType::kF32, {p_.rows, p_.channels});
    for (int64_t i = 0; i < sum.size(); ++i) sum.set(i, dx[static_cast<size_t>(i)]);
    EXPECT_LT(relative_error(sum, p_.dx), p_.dtype == DType::kBF16 ? 8e-3 : 1e-5) << p_.vocabulary;
    return bits;
  }

 private:
  struct Part {
    Part(const HeadParts& parts, const Cpu& cpu, int64_t first, int64_t stored, bool training)
        : Part(parts.p_, cpu, first, stored, training) {}
    Part(const Problem& p, const Cpu& cpu, int64_t first, int64_t stored, bool training)
        : forward(DType::kU8, {packed_weight_bytes(p.dtype, WeightUse::kForward, stored, p.channels)}),
          backward(DType::kU8, {packed_weight_bytes(p.dtype, WeightUse::kBackward, stored, p.channels)}),
          dx(p.dtype, {p.rows, p.channels}),
          dw(DType::kF32, {stored, p.channels}),
          workspace(workspace_of(head_workspace_bytes(p.dtype, p.rows, p.channels, stored, training))) {
      TestTensor w(p.dtype, {stored, p.channels});
      for (int64_t i = 0; i < w.size(); ++i) {
        const int64_t at = first * p.channels + i;
        if (at >= p.w.size()) continue;
        w.set(i, p.w.at(at));
        dw.set(i, p.old.at(at));
      }
      pack_weight(cpu, {w.view(), p.dtype, as_workspace(forward), as_workspace(backward)});
      args = {.x = p.x.view(),
              .part = {p.vocabulary, first, stored},
              .forward = as_workspace(forward),
              .backward = as_workspace(backward),
              .labels = p.labels.view(),
              .mask = p.mask.view(),
              .statistics = {},
              .scale = static_cast<float>(Problem::scale),
              .dx = training ? dx.view() : TensorView{},
              .beta = 1,
              .dw = training ? dw.view() : TensorView{},
              .workspace = as_workspace(workspace)};
    }
    TestTensor forward, backward, dx, dw, workspace;
    HeadArgs args;
  };

  void expect_rows_of(const TestTensor& dw, int64_t first) const {
    std::vector<double> expected(static_cast<size_t>(dw.size()), 0);
    for (size_t i = 0; i < expected.size(); ++i)
      if (const size_t at = i + static_cast<size_t>(first * p_.channels); at < p_.dw.size())
        expected[i] = p_.dw[at];
    EXPECT_LT(relative_error(dw, expected), bound_of(p_.dtype)) << p_.vocabulary << " from " << first;
  }

  const Problem& p_;
  int64_t parts_;
};

TEST(HeadTest, PartsOfTheVocabularyTogetherEqualTheWhole) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, channels, vocabulary, parts] : {std::array<int64_t, 4>{1, 1, 2, 2},
                                                            {5, 3, 65, 2},
                                                            {7, 48, 5, 4},
                                                            {600, 16, 129, 3},
                                                            {20, 8, 4201, 2}}) {
      const Problem p(dtype, rows, channels, vocabulary);
      testing::for_each_cpu([&](const Cpu& cpu) { return HeadParts(p, parts).check(cpu); });
    }
  }
}

// One bad logit that is nobody's label still shows in the loss.
TEST(HeadTest, NanOfOneWeightShowsInTheLoss) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TestTensor x = random_tensor(dtype, {3, 8}, 1);
    TestTensor w = random_tensor(dtype, {70, 8}, 2), labels(DType::kI32, {3});
    w.set(50 * 8 + 2, std::nan(""));
    testing::for_each_cpu([&](const Cpu& cpu) {
      TestTensor forward(DType::kU8, {packed_weight_bytes(dtype, WeightUse::kForward, 70, 8)});
      TestTensor workspace = workspace_of(head_workspace_bytes(dtype, 3, 8, 70, false));
      pack_weight(cpu, {w.view(), dtype, as_workspace(forward), {}});
      const HeadResult result = head_cross_entropy(cpu, {.x = x.view(),
                                                         .part = whole_vocabulary(70),
                                                         .forward = as_workspace(forward),
                                                         .backward = {},
                                                         .labels = labels.view(),
                                                         .mask = {},
                                                         .statistics = {},
                                                         .dx = {},
                                                         .dw = {},
                                                         .workspace = as_workspace(workspace)});
      EXPECT_TRUE(std::isnan(result.loss_sum));
      return std::string();
    });
  }
}

}  // namespace
}  // namespace ingot::backend::cpu
