#include <cmath>

#include "backend/reference/element.h"
#include "backend/reference/reference.h"

namespace ingot::backend::reference {
namespace {

// normalised = (x - mean) * scale of one row; the mean of an RMS norm is 0 (Zhang and Sennrich 2019).
struct RowStatistics {
  double mean = 0, scale = 0;
};

template <class Row>
RowStatistics statistics(const Row& row, int64_t columns, const graph::Attributes& attributes) {
  RowStatistics result;
  const auto count = static_cast<double>(columns);
  if (!attributes.rms) {
    for (int64_t c = 0; c < columns; ++c) result.mean += row(c);
    result.mean /= count;
  }
  double variance = 0;
  for (int64_t c = 0; c < columns; ++c) variance += (row(c) - result.mean) * (row(c) - result.mean);
  result.scale = 1 / std::sqrt(variance / count + attributes.epsilon);
  return result;
}

}  // namespace

void norm(const KernelArgs& args, void*) {
  const bool fused = args.outputs.size() == 2;  // x, d, w, [bias] -> x + d, norm(x + d)
  const size_t weight_at = fused ? 2 : 1;
  const Elements x(args.inputs[0]), d(args.inputs[fused ? 1 : 0]), w(args.inputs[weight_at]),
      y(args.outputs.back());
  const Elements sum(args.outputs[0]);
  const bool biased = args.inputs.size() > weight_at + 1;
  const Elements bias(args.inputs[biased ? weight_at + 1 : weight_at]);
  const int64_t rows = args.inputs[0].shape.rows(), columns = args.inputs[0].shape.last();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * columns;
    if (fused)
      for (int64_t c = 0; c < columns; ++c) sum.set(at + c, x[at + c] + d[at + c]);
    const auto row = [&](int64_t c) { return fused ? sum[at + c] : x[at + c]; };
    const RowStatistics s = statistics(row, columns, *args.attributes);
    for (int64_t c = 0; c < columns; ++c)
      y.set(at + c, (row(c) - s.mean) * s.scale * w[c] + (biased ? bias[c] : 0));
  }
}

// With n = (x - mean) scale and g = dy w: dx = scale (g - mean(g) - n mean(g n)); mean(g) falls out of an RMS
// norm.
void norm_dx(const KernelArgs& args, void*) {
  const Elements x(args.inputs[0]), w(args.inputs[1]), dy(args.inputs[2]), dx(args.outputs[0]);
  const bool added = args.inputs.size() > 3;
  const Elements addend(args.inputs[added ? 3 : 2]);
  const int64_t rows = args.inputs[0].shape.rows(), columns = args.inputs[0].shape.last();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * columns;
    const auto row = [&](int64_t c) { return x[at + c]; };
    const RowStatistics s = statistics(row, columns, *args.attributes);
    double mean_g = 0, mean_gn = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double g = dy[at + c] * w[c];
      mean_g += g;
      mean_gn += g * (row(c) - s.mean) * s.scale;
    }
    mean_g = args.attributes->rms ? 0 : mean_g / static_cast<double>(columns);
    mean_gn /= static_cast<double>(columns);
    for (int64_t c = 0; c < columns; ++c) {
      const double n = (row(c) - s.mean) * s.scale;
      dx.set(at + c, s.scale * (dy[at + c] * w[c] - mean_g - n * mean_gn) + (added ? addend[at + c] : 0));
    }
  }
}

void norm_dw(const KernelArgs& args, void*) {
  const Elements x(args.inputs[0]), dy(args.inputs[1]), dw(args.outputs[0]);
  const bool biased = args.outputs.size() > 1;
  const Elements dbias(args.outputs[biased ? 1 : 0]);
  const int64_t rows = args.inputs[0].shape.rows(), columns = args.inputs[0].shape.last();
  if (rows == 0 && args.overwrite) {
    for (int64_t c = 0; c < columns; ++c) dw.set(c, 0);
    if (biased)
      for (int64_t c = 0; c < columns; ++c) dbias.set(c, 0);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * columns;
    const RowStatistics s = statistics([&](int64_t c) { return x[at + c]; }, columns, *args.attributes);
    const bool overwrite = args.overwrite && r == 0;
    for (int64_t c = 0; c < columns; ++c) {
      dw.put(c, dy[at + c] * (x[at + c] - s.mean) * s.scale, overwrite);
      if (biased) dbias.put(c, dy[at + c], overwrite);
    }
  }
}

}  // namespace ingot::backend::reference
