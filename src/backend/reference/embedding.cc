#include <cmath>
#include <numbers>

#include "backend/reference/element.h"
#include "backend/reference/reference.h"

namespace ingot::backend::reference {

// A table cut along its rows over attributes.group: rows of other ranks give zero, and the sum over ranks is
// the whole.
void embed(const KernelArgs& args, void*) {
  const auto* ids = args.inputs[0].as<const int32_t>();
  const Elements table(args.inputs[1]), x(args.outputs[0]);
  const int64_t held = args.inputs[1].shape[0], columns = args.inputs[1].shape[1];
  const int64_t first = args.group_index * held;
  for (int64_t r = 0; r < args.inputs[0].elements(); ++r) {
    const int64_t row = ids[r] - first;
    const bool here = row >= 0 && row < held;
    for (int64_t c = 0; c < columns; ++c) x.set(r * columns + c, here ? table[row * columns + c] : 0);
  }
}

void embed_dw(const KernelArgs& args, void*) {
  const auto* ids = args.inputs[0].as<const int32_t>();
  const Elements dx(args.inputs[1]), dtable(args.outputs[0]);
  const int64_t held = args.outputs[0].shape[0], columns = args.outputs[0].shape[1];
  const int64_t first = args.group_index * held;
  if (args.overwrite)
    for (int64_t i = 0; i < held * columns; ++i) dtable.set(i, 0);
  for (int64_t r = 0; r < args.inputs[0].elements(); ++r) {
    const int64_t row = ids[r] - first;
    if (row < 0 || row >= held) continue;
    for (int64_t c = 0; c < columns; ++c) dtable.add(row * columns + c, dx[r * columns + c]);
  }
}

double rotary_frequency(const graph::Attributes& a, int64_t i) {
  const double plain = std::pow(a.theta, -2.0 * static_cast<double>(i) / a.head_dim);
  if (a.rope_factor == 0) return plain;
  const double turns = a.rope_original * plain / (2 * std::numbers::pi);  // over the original context
  if (turns > a.rope_high) return plain;
  if (turns < a.rope_low) return plain / a.rope_factor;
  const double smooth = (turns - a.rope_low) / (a.rope_high - a.rope_low);
  return (1 - smooth) * plain / a.rope_factor + smooth * plain;
}

void rotary(const KernelArgs& args, void*) {
  const Elements x(args.inputs[0]), y(args.outputs[0]);
  const auto* position = args.inputs[1].as<const int32_t>();
  const bool by_document = args.attributes->document_positions && args.inputs.size() > 2;
  const auto* doc_start = args.inputs[by_document ? 2 : 1].as<const int32_t>();
  const int64_t rows = args.inputs[0].shape.rows(), columns = args.inputs[0].shape.last();
  const int64_t size = args.attributes->head_dim, half = size / 2;
  const double sign = args.attributes->inverse ? -1 : 1;
  for (int64_t i = 0; i < half; ++i) {
    const double turn = rotary_frequency(*args.attributes, i);
    for (int64_t r = 0; r < rows; ++r) {
      const double angle = turn * (by_document ? position[r] - doc_start[r] : position[r]);
      const double cosine = std::cos(angle), sine = sign * std::sin(angle);
      for (int64_t head = 0; head < columns / size; ++head) {
        const int64_t low = r * columns + head * size + i, high = low + half;
        const double a = x[low], b = x[high];
        y.set(low, a * cosine - b * sine);
        y.set(high, b * cosine + a * sine);
      }
    }
  }
}

}  // namespace ingot::backend::reference
