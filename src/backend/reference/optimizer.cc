#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/reference/element.h"
#include "backend/reference/reference.h"
#include "graph/sum_tree.h"

namespace ingot::backend::reference {

void sum_squares(const KernelArgs& args, void*) {
  const Elements g(args.inputs[0]);
  double sum = 0;
  for (int64_t i = 0; i < args.inputs[0].elements(); ++i) sum += g[i] * g[i];
  args.outputs[0].as<double>()[graph::kSumSquares] += args.attributes->weight * sum;
}

namespace {

constexpr double kGoodStepsToDouble = 2000;

// Dynamic loss scale: doubles after 2,000 good steps, halves on overflow, never under 1.
void adapt_loss_scale(double* scalars, bool overflow) {
  if (overflow) {
    scalars[graph::kLossScale] = std::max(1.0, scalars[graph::kLossScale] / 2);
    scalars[graph::kGoodSteps] = 0;
  } else if (++scalars[graph::kGoodSteps] >= kGoodStepsToDouble) {
    scalars[graph::kLossScale] *= 2;
    scalars[graph::kGoodSteps] = 0;
  }
}

// Sums that were kept by leaf of the tree.
void add_parts(const TensorView& view, double* sums) {
  auto* parts = view.as<double>();
  const auto leaves = static_cast<int>(view.elements() / graph::kControlBlock);
  for (int i = 0; i < graph::kControlBlock; ++i)
    sums[i] += graph::tree_sum({0, leaves}, [&](int leaf) { return parts[leaf * graph::kControlBlock + i]; });
  std::fill_n(parts, view.elements(), 0.0);
}

}  // namespace

// Gradients are sums over tokens, seeded with the loss scale: the true norm is sqrt(sum of squares) / tokens
// / scale. A step without a token changes nothing.
void control(const KernelArgs& args, void*) {
  auto* sums = args.outputs[0].as<double>();
  auto* scalars = args.outputs[1].as<double>();
  const auto* step = args.inputs[2].as<const double>();
  if (args.outputs.size() > 2) add_parts(args.outputs[2], sums);
  const double tokens = sums[graph::kTokenCount], per_token = tokens > 0 ? 1 / tokens : 0;
  scalars[graph::kLastLoss] = sums[graph::kLossSum] * per_token;
  scalars[graph::kLastTokens] = tokens;
  scalars[graph::kLastOverflow] = sums[graph::kOverflowCount];
  for (int i = 0; i < graph::kRequestCount; ++i)
    scalars[graph::kRequestSums + i] = sums[graph::kRequests + i];
  if (args.attributes->update) {
    const double unscale = per_token / graph::gradient_scale(scalars, *args.attributes);
    const double norm = std::sqrt(sums[graph::kSumSquares]) * unscale;
    const bool finite = std::isfinite(sums[graph::kSumSquares]) && std::isfinite(sums[graph::kLossSum]);
    const bool apply = finite && sums[graph::kOverflowCount] == 0 && tokens > 0;
    const double clip = args.attributes->clip;
    scalars[graph::kLastNorm] = norm;
    scalars[graph::kApply] = apply ? 1 : 0;
    scalars[graph::kUpdateFactor] =
        apply ? unscale * (clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1) : 0;
    if (apply) scalars[graph::kAdamStep] += 1;
    // An overflowing buffer or an empty step says nothing of the scale.
    if (step[graph::kLossScaling] != 0 && (apply || !finite)) adapt_loss_scale(scalars, !finite);
  }
  std::fill(sums, sums + graph::kControlBlock, 0.0);
}

// Loshchilov and Hutter 2019, in PyTorch's form: w -= lr (m' / (sqrt(v') + epsilon) + decay w), m' = m / (1 -
// beta1^t) and v' = v / (1 - beta2^t).
void adamw(const KernelArgs& args, void*) {
  const auto* scalars = args.inputs[1].as<const double>();
  const auto* step = args.inputs[2].as<const double>();
  if (scalars[graph::kApply] == 0) return;
  const graph::Attributes& a = *args.attributes;
  const Elements g(args.inputs[0]), w(args.outputs[0]), m(args.outputs[1]), v(args.outputs[2]);
  const double factor = scalars[graph::kUpdateFactor], t = scalars[graph::kAdamStep];
  const double rate = step[graph::kLearningRate] * a.learning_rate_factor;
  const double correction1 = 1 - std::pow(a.beta1, t), correction2 = 1 - std::pow(a.beta2, t);
  for (int64_t i = 0; i < args.outputs[0].elements(); ++i) {
    const double gradient = factor * g[i];
    const double first = a.beta1 * m[i] + (1 - a.beta1) * gradient;
    const double second = a.beta2 * v[i] + (1 - a.beta2) * gradient * gradient;
    m.set(i, first);
    v.set(i, second);
    const double direction = first / correction1 / (std::sqrt(second / correction2) + a.epsilon);
    w.set(i, w[i] - rate * (direction + a.weight_decay * w[i]));
  }
}

}  // namespace ingot::backend::reference
