#include "backend/reference/element.h"
#include "backend/reference/reference.h"

namespace ingot::backend::reference {

// y[r, o] = sum over i of x[r, i] w[o, i] + bias[o]
void linear(const KernelArgs& args, void*) {
  const Elements x(args.inputs[0]), w(args.inputs[1]), y(args.outputs.back());
  const int64_t rows = args.inputs[0].shape.rows(), in = args.inputs[0].shape.last();
  const int64_t out = args.inputs[1].shape[0];
  const bool biased = args.inputs.size() > 2;
  const Elements bias(biased ? args.inputs[2] : args.inputs[1]);
  const auto kind = args.attributes->activation;
  const Elements activated(args.outputs[0]);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = biased ? bias[o] : 0;
      for (int64_t i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
      y.set(r * out + o, sum);
      // The activation reads y as stored, as it would in a node of its own.
      if (kind != graph::ActivationKind::kNone) activated.set(r * out + o, activate(kind, y[r * out + o]));
    }
  }
}

// dx[r, i] = sum over o of dy[r, o] w[o, i] + addend[r, i]
void linear_dx(const KernelArgs& args, void*) {
  const Elements dy(args.inputs[0]), w(args.inputs[1]), dx(args.outputs[0]);
  const int64_t rows = args.inputs[0].shape.rows(), out = args.inputs[0].shape.last();
  const int64_t in = args.inputs[1].shape[1];
  const bool added = args.inputs.size() > 2;
  const Elements addend(added ? args.inputs[2] : args.inputs[0]);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < out; ++o) sum += dy[r * out + o] * w[o * in + i];
      dx.set(r * in + i, sum + (added ? addend[r * in + i] : 0));
    }
  }
}

// dw[o, i] += sum over r of dy[r, o] x[r, i]; dbias[o] += sum over r of dy[r, o]
void linear_dw(const KernelArgs& args, void*) {
  const Elements x(args.inputs[0]), dy(args.inputs[1]), dw(args.outputs[0]);
  const int64_t rows = args.inputs[0].shape.rows(), in = args.inputs[0].shape.last();
  const int64_t out = args.inputs[1].shape.last();
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += dy[r * out + o] * x[r * in + i];
      dw.put(o * in + i, sum, args.overwrite);
    }
  }
  if (args.outputs.size() < 2) return;
  const Elements dbias(args.outputs[1]);
  for (int64_t o = 0; o < out; ++o) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += dy[r * out + o];
    dbias.put(o, sum, args.overwrite);
  }
}

}  // namespace ingot::backend::reference
