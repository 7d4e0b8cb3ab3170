#include <cmath>
#include <numbers>

#include "backend/reference/element.h"
#include "backend/reference/reference.h"
#include "base/random.h"

namespace ingot::backend::reference {
namespace {

using graph::ActivationKind;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// gelu(x) = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016).
constexpr double kCubic = 0.044715;
const double kRootTwoOverPi = std::sqrt(2 / std::numbers::pi);

double derivative(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kGeluTanh: {
      const double t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
    }
    case ActivationKind::kGeluErf:
      return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
             x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    default: {
      const double s = sigmoid(x);
      return s * (1 + x * (1 - s));
    }
  }
}

}  // namespace

double activate(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)));
    case ActivationKind::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    default:
      return x * sigmoid(x);
  }
}

void activation(const KernelArgs& args, void*) {
  const Elements x(args.inputs[0]), y(args.outputs[0]);
  const ActivationKind kind = args.attributes->activation;
  const bool gated = kind == ActivationKind::kSwiGlu;
  const Elements up(args.inputs[gated ? 1 : 0]);
  for (int64_t i = 0; i < args.outputs[0].elements(); ++i)
    y.set(i, activate(kind, x[i]) * (gated ? up[i] : 1));
}

void activation_grad(const KernelArgs& args, void*) {
  const ActivationKind kind = args.attributes->activation;
  const bool gated = kind == ActivationKind::kSwiGlu;
  const Elements x(args.inputs[0]), up(args.inputs[gated ? 1 : 0]), dy(args.inputs.back()),
      dx(args.outputs[0]);
  const Elements dup(args.outputs.back());
  for (int64_t i = 0; i < args.outputs[0].elements(); ++i) {
    const double gate = x[i], value = gated ? up[i] : 1, gradient = dy[i];  // outputs may be these inputs
    dx.set(i, gradient * value * derivative(kind, gate));
    if (gated) dup.set(i, gradient * activate(kind, gate));
  }
}

void add(const KernelArgs& args, void*) {
  const Elements a(args.inputs[0]), b(args.inputs[1]), y(args.outputs[0]);
  for (int64_t i = 0; i < args.outputs[0].elements(); ++i) y.set(i, a[i] + b[i]);
}

void dropout(const KernelArgs& args, void*) {
  const Elements x(args.inputs[0]), y(args.outputs[0]);
  const auto* sample = args.inputs[1].as<const int64_t>();
  const auto* position = args.inputs[2].as<const int32_t>();
  const int64_t rows = args.inputs[0].shape.rows(), columns = args.inputs[0].shape.last();
  const int64_t length = rows / std::max<int64_t>(args.inputs[0].shape[0], 1);
  const PhiloxKey key = random_key(args.seed, RandomPurpose::kDropout, args.attributes->site);
  const auto rate = static_cast<float>(args.attributes->rate);
  const double kept_scale = 1 / (1 - args.attributes->rate);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const auto element = static_cast<uint64_t>(position[r] * columns + c);
      const bool kept = random_uniform(key, element, static_cast<uint64_t>(sample[r / length])) >= rate;
      y.set(r * columns + c, kept ? x[r * columns + c] * kept_scale : 0);
    }
  }
}

}  // namespace ingot::backend::reference
