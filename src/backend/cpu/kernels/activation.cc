#include <algorithm>

#include "backend/cpu/kernels/activation_spans.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/float_types.h"

namespace ingot::backend::cpu {
namespace {

using tensor::DType;
using tensor::TensorView;

constexpr int64_t kSpan = 16384;

template <class Body>
void for_spans(const Cpu& cpu, int64_t elements, const Body& body) {
  cpu.pool.parallel_for((elements + kSpan - 1) / kSpan, [&](int64_t tile, int) {
    body(tile * kSpan, std::min(elements, (tile + 1) * kSpan));
  });
}

void check_alike(const TensorView& a, const TensorView& b) {
  check_same(a, b);
  INGOT_CHECK(a.dtype == b.dtype, "{} and {} differ in type", tensor::name_of(a.dtype),
              tensor::name_of(b.dtype));
}

}  // namespace

void activation_forward(const Cpu& cpu, Activation kind, const TensorView& x, const TensorView& y) {
  check_float(x);
  check_alike(x, y);
  const ActivationSpan span{x.data, nullptr, y.data};
  for_spans(cpu, x.elements(), [&](int64_t begin, int64_t end) {
    run_activation_span(x.dtype == DType::kBF16, kind, span, begin, end);
  });
}

void activation_backward(const Cpu& cpu, Activation kind, const TensorView& x, const TensorView& dy,
                         const TensorView& dx) {
  check_float(x);
  check_alike(x, dy);
  check_alike(x, dx);
  const ActivationSpan span{x.data, dy.data, dx.data};
  for_spans(cpu, x.elements(), [&](int64_t begin, int64_t end) {
    run_activation_span(x.dtype == DType::kBF16, kind, span, begin, end);
  });
}

void swiglu_forward(const Cpu& cpu, const SwigluArgs& args) {
  check_float(args.gate);
  check_alike(args.gate, args.up);
  check_alike(args.gate, args.y);
  const SwigluSpan span{.gate = args.gate.data, .up = args.up.data, .y = args.y.data};
  for_spans(cpu, args.gate.elements(), [&](int64_t begin, int64_t end) {
    run_swiglu_span(args.gate.dtype == DType::kBF16, span, begin, end);
  });
}

void swiglu_backward(const Cpu& cpu, const SwigluArgs& args) {
  check_float(args.gate);
  check_alike(args.gate, args.up);
  check_alike(args.gate, args.dy);
  for (const TensorView* out : {&args.dgate, &args.dup}) {
    if (out->data != nullptr) check_alike(args.gate, *out);
  }
  const SwigluSpan span{.gate = args.gate.data,
                        .up = args.up.data,
                        .dy = args.dy.data,
                        .dgate = args.dgate.data,
                        .dup = args.dup.data};
  for_spans(cpu, args.gate.elements(), [&](int64_t begin, int64_t end) {
    run_swiglu_span(args.gate.dtype == DType::kBF16, span, begin, end);
  });
}

}  // namespace ingot::backend::cpu
