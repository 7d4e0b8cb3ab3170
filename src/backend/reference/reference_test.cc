// Known answers for what the proofs of derivatives and layouts do not fix: rounding, control, the optimizer's
// formula, fused forms, padding. Derivatives of every kernel are proved in runtime.
#include "backend/reference/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "graph/ops.h"
#include "tensor/half.h"

namespace ingot::backend::reference {
namespace {

using graph::ActivationKind;
using graph::Attributes;
using tensor::DType;
using tensor::Shape;

// A tensor with its memory; real numbers are given and read as doubles.
struct Tensor {
  Tensor(DType type, Shape extents, const std::vector<double>& values = {}) : dtype(type), shape(extents) {
    bytes.resize(static_cast<size_t>(shape.elements() * tensor::size_of(dtype)) + 64);
    for (size_t i = 0; i < values.size(); ++i) set(i, values[i]);
  }
  TensorView view() { return {bytes.data(), dtype, shape}; }
  void set(size_t i, double value) {
    void* at = bytes.data() + i * static_cast<size_t>(tensor::size_of(dtype));
    switch (dtype) {
      case DType::kF64:
        *static_cast<double*>(at) = value;
        return;
      case DType::kF32:
        *static_cast<float*>(at) = static_cast<float>(value);
        return;
      case DType::kBF16:
        *static_cast<uint16_t*>(at) = tensor::bf16_of_float(static_cast<float>(value));
        return;
      case DType::kF16:
        *static_cast<uint16_t*>(at) = tensor::f16_of_float(static_cast<float>(value));
        return;
      case DType::kI64:
        *static_cast<int64_t*>(at) = static_cast<int64_t>(value);
        return;
      default:
        *static_cast<int32_t*>(at) = static_cast<int32_t>(value);
    }
  }
  double operator[](size_t i) {
    const void* at = bytes.data() + i * static_cast<size_t>(tensor::size_of(dtype));
    switch (dtype) {
      case DType::kF64:
        return *static_cast<const double*>(at);
      case DType::kF32:
        return static_cast<double>(*static_cast<const float*>(at));
      case DType::kBF16:
        return static_cast<double>(tensor::float_of_bf16(*static_cast<const uint16_t*>(at)));
      default:
        return static_cast<double>(tensor::float_of_f16(*static_cast<const uint16_t*>(at)));
    }
  }
  std::vector<double> values() {
    std::vector<double> result;
    for (int64_t i = 0; i < shape.elements(); ++i) result.push_back((*this)[static_cast<size_t>(i)]);
    return result;
  }
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

std::vector<double> noise(int64_t count, uint64_t seed) {
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(random_normal(random_key(seed, RandomPurpose::kInit, 1), static_cast<uint64_t>(i), 0));
  return result;
}

struct Call {
  Attributes attributes{};
  bool overwrite = false;
  int group_index = 0;
  int64_t workspace_bytes = 1 << 16;
  uint64_t seed = 0;
};

void run(Kernel kernel, std::vector<Tensor*> inputs, std::vector<Tensor*> outputs, const Call& call = {}) {
  std::vector<TensorView> in, out;
  for (Tensor* tensor : inputs) in.push_back(tensor->view());
  for (Tensor* tensor : outputs) out.push_back(tensor->view());
  std::vector<double> workspace(static_cast<size_t>(call.workspace_bytes) / 8, std::nan(""));
  KernelArgs args;
  args.inputs = in;
  args.outputs = out;
  args.attributes = &call.attributes;
  args.overwrite = call.overwrite;
  args.group_index = call.group_index;
  args.workspace = std::as_writable_bytes(std::span<double>(workspace));
  args.seed = call.seed;
  kernel(args, nullptr);
}

TEST(ReferenceAdamW, TwoStepsAsPyTorchMakesThem) {
  Tensor g(DType::kF64, {1}), w(DType::kF64, {1}, {1.0}), m(DType::kF64, {1}), v(DType::kF64, {1});
  Tensor scalars(DType::kF64, {16}), step(DType::kF64, {16});
  step.set(graph::kLearningRate, 0.1);
  scalars.set(graph::kApply, 1);
  scalars.set(graph::kUpdateFactor, 0.5);  // the gradients below are twice those of the formula
  Attributes attributes;
  attributes.beta1 = 0.9;
  attributes.beta2 = 0.999;
  attributes.epsilon = 1e-8;
  attributes.weight_decay = 0.01;
  const double gradients[] = {1.0, -0.5}, expected[] = {0.8990000020, 0.8714672987};
  for (size_t t = 0; t < 2; ++t) {
    g.set(0, gradients[t]);
    scalars.set(graph::kAdamStep, static_cast<double>(t + 1));
    run(adamw, {&g, &scalars, &step, &w, &m, &v}, {&w, &m, &v}, {.attributes = attributes});
    EXPECT_NEAR(w[0], expected[t], 1e-9);
  }
  scalars.set(graph::kApply, 0);
  const double before = w[0];
  g.set(0, std::nan(""));
  run(adamw, {&g, &scalars, &step, &w, &m, &v}, {&w, &m, &v}, {.attributes = attributes});
  EXPECT_EQ(w[0], before);
}

class ReferenceControl : public ::testing::Test {
 protected:
  void run_control(double clip = 1, bool update = true) {
    Attributes attributes;
    attributes.clip = clip;
    attributes.update = update;
    run(control, {&sums, &scalars, &step}, {&sums, &scalars}, {.attributes = attributes});
    EXPECT_EQ(sums.values(), std::vector<double>(16, 0.0));
  }
  Tensor sums{DType::kF64, {16}}, scalars{DType::kF64, {16}}, step{DType::kF64, {16}};
};

TEST_F(ReferenceControl, ClipsByTheTrueNorm) {
  scalars.set(graph::kLossScale, 8);
  sums.set(graph::kLossSum, 20);
  sums.set(graph::kTokenCount, 10);
  sums.set(graph::kSumSquares, 160.0 * 160.0);  // norm 160 / 10 / 8 = 2
  run_control(1);
  EXPECT_EQ(scalars[graph::kLastLoss], 2);
  EXPECT_EQ(scalars[graph::kLastNorm], 2);
  EXPECT_EQ(scalars[graph::kLastTokens], 10);
  EXPECT_EQ(scalars[graph::kApply], 1);
  EXPECT_EQ(scalars[graph::kAdamStep], 1);
  EXPECT_DOUBLE_EQ(scalars[graph::kUpdateFactor], 1 / (2 + 1e-6) / 10 / 8);
  sums.set(graph::kTokenCount, 10);
  sums.set(graph::kSumSquares, 16);
  run_control(0);  // no clipping
  EXPECT_DOUBLE_EQ(scalars[graph::kUpdateFactor], 1.0 / 80);
}

TEST_F(ReferenceControl, ScaleHalvesOnOverflowDoublesAfter2000GoodStepsAndStopsAtOne) {
  scalars.set(graph::kLossScale, 4);
  step.set(graph::kLossScaling, 1);
  for (const double expected : {2.0, 1.0, 1.0}) {
    sums.set(graph::kTokenCount, 1);
    sums.set(graph::kSumSquares, INFINITY);
    run_control();
    EXPECT_EQ(scalars[graph::kLossScale], expected);
    EXPECT_EQ(scalars[graph::kApply], 0);
    EXPECT_EQ(scalars[graph::kUpdateFactor], 0);
  }
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(scalars[graph::kLossScale], 1) << i;
    sums.set(graph::kTokenCount, 1);
    run_control();
  }
  EXPECT_EQ(scalars[graph::kLossScale], 2);
  EXPECT_EQ(scalars[graph::kAdamStep], 2000);
}

TEST_F(ReferenceControl, AFixedScaleStaysAndABoundedBufferOrAnEmptyStepSkips) {
  scalars.set(graph::kLossScale, 4);
  sums.set(graph::kTokenCount, 1);
  sums.set(graph::kSumSquares, std::nan(""));
  run_control();
  EXPECT_EQ(scalars[graph::kLossScale], 4);
  step.set(graph::kLossScaling, 1);
  sums.set(graph::kTokenCount, 1);
  sums.set(graph::kOverflowCount, 1);
  run_control();
  EXPECT_EQ(scalars[graph::kApply], 0);
  EXPECT_EQ(scalars[graph::kLastOverflow], 1);
  run_control();  // no token at all
  EXPECT_EQ(scalars[graph::kApply], 0);
  EXPECT_EQ(scalars[graph::kLastLoss], 0);
  EXPECT_EQ(scalars[graph::kLastNorm], 0);
  EXPECT_EQ(scalars[graph::kLossScale], 4);
}

TEST_F(ReferenceControl, EvaluationReportsAndLeavesTheRest) {
  scalars.set(graph::kLossScale, 4);
  scalars.set(graph::kLastNorm, 3);
  sums.set(graph::kLossSum, 9);
  sums.set(graph::kTokenCount, 3);
  sums.set(graph::kRequests + 1, 2);
  run_control(1, false);
  EXPECT_EQ(scalars[graph::kLastLoss], 3);
  EXPECT_EQ(scalars[graph::kRequestSums + 1], 2);
  EXPECT_EQ(scalars[graph::kLastNorm], 3);
  EXPECT_EQ(scalars[graph::kAdamStep], 0);
}

TEST(ReferenceDropout, DrawsByPositionAndSampleAlone) {
  const int64_t columns = 5;
  Tensor x(DType::kF32, {2, 3, columns}, std::vector<double>(30, 1.0)), y(DType::kF32, {2, 3, columns});
  Tensor sample(DType::kI64, {2}, {7, 1e10}), position(DType::kI32, {2, 3}, {0, 1, 2, 9, 8, 4});
  Attributes attributes;
  attributes.rate = 0.4;
  attributes.site = 3;
  run(dropout, {&x, &sample, &position}, {&y}, {.attributes = attributes, .seed = 99});
  const PhiloxKey key = random_key(99, RandomPurpose::kDropout, 3);
  const int32_t at[] = {0, 1, 2, 9, 8, 4};
  int kept = 0;
  for (size_t i = 0; i < 30; ++i) {
    const size_t row = i / 5;
    const auto element = static_cast<uint64_t>(at[row]) * 5 + i % 5;
    const bool keep = random_uniform(key, element, row < 3 ? 7 : 10'000'000'000U) >= 0.4F;
    EXPECT_FLOAT_EQ(static_cast<float>(y[i]), keep ? 1 / 0.6F : 0.0F) << i;
    kept += keep ? 1 : 0;
  }
  EXPECT_GT(kept, 8);
  EXPECT_LT(kept, 27);
}

TEST(ReferenceFused, FormsEqualTheirExpansions) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    Tensor x(dtype, {3, 7}, noise(21, 1)), d(dtype, {3, 7}, noise(21, 2)), w(dtype, {5, 7}, noise(35, 3));
    Tensor gain(DType::kF32, {7}, noise(7, 4)), bias(DType::kF32, {7}, noise(7, 5)),
        dy(dtype, {3, 5}, noise(15, 6));
    Tensor sum(dtype, {3, 7}), y(dtype, {3, 7}), fused_sum(dtype, {3, 7}), fused(dtype, {3, 7});
    const Call norms{.attributes = {.epsilon = 1e-5}};
    run(add, {&x, &d}, {&sum});
    run(norm, {&sum, &gain, &bias}, {&y}, norms);
    run(norm, {&x, &d, &gain, &bias}, {&fused_sum, &fused}, norms);
    EXPECT_EQ(sum.values(), fused_sum.values());
    EXPECT_EQ(y.values(), fused.values());

    Tensor plain(dtype, {3, 5}), active(dtype, {3, 5}), fused_active(dtype, {3, 5}), kept(dtype, {3, 5});
    const Call gelu{.attributes = {.activation = ActivationKind::kGeluTanh}};
    run(linear, {&x, &w}, {&plain});
    run(activation, {&plain}, {&active}, gelu);
    run(linear, {&x, &w}, {&fused_active, &kept}, gelu);
    EXPECT_EQ(plain.values(), kept.values());
    EXPECT_EQ(active.values(), fused_active.values());

    Tensor dx(dtype, {3, 7}), fused_dx(dtype, {3, 7});
    run(linear_dx, {&dy, &w}, {&dx});
    run(linear_dx, {&dy, &w, &x}, {&fused_dx});
    for (size_t i = 0; i < 21; ++i)
      EXPECT_NEAR(fused_dx[i], dx[i] + x[i], dtype == DType::kF64 ? 1e-14 : 0.05);
    run(norm_dx, {&x, &gain, &d}, {&dx}, norms);
    run(norm_dx, {&x, &gain, &d, &sum}, {&fused_dx}, norms);
    for (size_t i = 0; i < 21; ++i)
      EXPECT_NEAR(fused_dx[i], dx[i] + sum[i], dtype == DType::kF64 ? 1e-14 : 0.05);
  }
}

TEST(ReferenceLinear, SixteenBitStorageRoundsOnce) {
  const std::vector<double> a = noise(6 * 33, 1), b = noise(4 * 33, 2);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Tensor x(dtype, {6, 33}, a), w(dtype, {4, 33}, b), y(dtype, {6, 4});
    Tensor exact_x(DType::kF64, {6, 33}, x.values()), exact_w(DType::kF64, {4, 33}, w.values()),
        exact(DType::kF64, {6, 4});
    run(linear, {&x, &w}, {&y});
    run(linear, {&exact_x, &exact_w}, {&exact});
    Tensor rounded(dtype, {6, 4}, exact.values());
    EXPECT_EQ(y.values(), rounded.values());
  }
}

TEST(ReferenceLinear, AccumulatorsAddOrAreOverwritten) {
  Tensor x(DType::kF64, {2, 1}, {1, 2}), dy(DType::kF64, {2, 1}, {3, 5}), dw(DType::kF64, {1, 1}, {100}),
      dbias(DType::kF64, {1}, {10});
  run(linear_dw, {&x, &dy}, {&dw, &dbias});
  EXPECT_EQ(dw[0], 113);
  EXPECT_EQ(dbias[0], 18);
  run(linear_dw, {&x, &dy}, {&dw, &dbias}, {.overwrite = true});
  EXPECT_EQ(dw[0], 13);
  EXPECT_EQ(dbias[0], 8);
}

TEST(ReferenceRotary, TheInverseUndoesItAndScalingBendsLongWavesOnly) {
  Tensor x(DType::kF64, {1, 3, 8}, noise(24, 1)), y(DType::kF64, {1, 3, 8}), z(DType::kF64, {1, 3, 8});
  Tensor position(DType::kI32, {1, 3}, {0, 5, 77});
  Attributes attributes;
  attributes.head_dim = 8;
  attributes.theta = 10000;
  run(rotary, {&x, &position}, {&y}, {.attributes = attributes});
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(y[i], x[i]);
  // Pair 0 turns by the position in radians.
  EXPECT_NEAR(y[8], x[8] * std::cos(5.0) - x[12] * std::sin(5.0), 1e-14);
  attributes.inverse = true;
  run(rotary, {&y, &position}, {&z}, {.attributes = attributes});
  for (size_t i = 0; i < 24; ++i) EXPECT_NEAR(z[i], x[i], 1e-14);
  attributes.inverse = false;
  attributes.rope_factor = 8;
  attributes.rope_low = 1;
  attributes.rope_high = 4;
  attributes.rope_original = 8192;
  run(rotary, {&x, &position}, {&z}, {.attributes = attributes});
  EXPECT_EQ(z[8], y[8]);                           // short wave: kept
  const double slow = 5 * std::pow(10000, -0.75);  // 1.3 turns in 8,192 positions: between
  const double smooth = (8192 * slow / 5 / (2 * M_PI) - 1) / 3;
  const double angle = (1 - smooth) * slow / 8 + smooth * slow;
  EXPECT_NEAR(z[11], x[11] * std::cos(angle) - x[15] * std::sin(angle), 1e-14);
}

TEST(ReferenceHead, PartsOfAVocabularyJoinToTheWholeAndPaddingIsNeverSeen) {
  const int64_t vocabulary = 7, stored = 4, channels = 3;
  Tensor x(DType::kF64, {1, 5, channels}, noise(15, 1)), w(DType::kF64, {vocabulary, channels}, noise(21, 2));
  Tensor labels(DType::kI32, {1, 5}, {0, 6, 3, -100, 4}), mask(DType::kF32, {1, 5}, {1, 1, 0, 1, 1});
  Tensor scalars(DType::kF64, {16}), sums(DType::kF64, {16}), dx(DType::kF64, {1, 5, channels}),
      dw(DType::kF64, {vocabulary, channels});
  scalars.set(graph::kLossScale, 2);
  Call call{.attributes = {.vocabulary = vocabulary, .with_gradient = true},
            .overwrite = true,
            .workspace_bytes = 2 * 7 * 8};
  run(head_loss, {&x, &w, &labels, &mask, &scalars}, {&sums, &dx, &dw}, call);
  EXPECT_EQ(sums[graph::kTokenCount], 3);

  std::vector<Tensor> parts, stats;
  for (int64_t part = 0; part < 2; ++part) {
    parts.emplace_back(DType::kF64, Shape{stored, channels},
                       std::vector<double>(12, 1e3));  // padding that must not count
    for (int64_t i = 0; i < std::min(stored, vocabulary - part * stored) * channels; ++i)
      parts.back().set(static_cast<size_t>(i), w[static_cast<size_t>(part * stored * channels + i)]);
    stats.emplace_back(DType::kF64, Shape{1, 5, 3});
    call.group_index = static_cast<int>(part);
    run(head_stats, {&x, &parts.back(), &labels}, {&stats.back()}, call);
  }
  Tensor joined(DType::kF64, {1, 5, 6});
  for (size_t row = 0; row < 5; ++row)
    for (size_t i = 0; i < 6; ++i) joined.set(row * 6 + i, stats[i / 3][row * 3 + i % 3]);
  Tensor part_sums(DType::kF64, {16});
  std::vector<double> summed(15, 0.0);
  for (size_t part = 0; part < 2; ++part) {
    call.group_index = static_cast<int>(part);
    call.attributes.weight = 0.5;
    Tensor part_dx(DType::kF64, {1, 5, channels}),
        part_dw(DType::kF64, {stored, channels}, std::vector<double>(12, 9.0));
    run(head_loss, {&x, &parts[part], &labels, &mask, &scalars, &joined}, {&part_sums, &part_dx, &part_dw},
        call);
    for (size_t i = 0; i < 15; ++i) summed[i] += part_dx[i];
    for (size_t i = 0; i < 12; ++i) {
      const size_t whole = part * 12 + i;
      EXPECT_NEAR(part_dw[i], whole < 21 ? dw[whole] : 0, 1e-14) << whole;
    }
  }
  for (size_t i = 0; i < 15; ++i) EXPECT_NEAR(summed[i], dx[i], 1e-14);
  for (const size_t i : {size_t{graph::kLossSum}, size_t{graph::kTokenCount}})
    EXPECT_NEAR(part_sums[i], sums[i], 1e-14);
}

TEST(ReferenceEmbed, RowsOfOtherRanksGiveZero) {
  Tensor ids(DType::kI32, {1, 3}, {0, 3, 5}), table(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}),
      x(DType::kF32, {1, 3, 2});
  run(embed, {&ids, &table}, {&x}, {.group_index = 1});
  EXPECT_EQ(x.values(), (std::vector<double>{0, 0, 1, 2, 5, 6}));
  Tensor gradient(DType::kF32, {3, 2}, {7, 7, 7, 7, 7, 7});
  run(embed_dw, {&ids, &x}, {&gradient}, {.overwrite = true, .group_index = 1});
  EXPECT_EQ(gradient.values(), (std::vector<double>{1, 2, 0, 0, 5, 6}));
}

}  // namespace
}  // namespace ingot::backend::reference
