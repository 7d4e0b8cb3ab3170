#include "backend/cpu/kernels/optimizer.h"

#include <algorithm>

#include "backend/cpu/kernels/float_types.h"
#include "backend/cpu/kernels/span_operations.h"

namespace ingot::backend::cpu {
namespace {

using tensor::DType;
using tensor::TensorView;

constexpr int64_t kSpan = 16384;

int64_t spans_of(int64_t elements) { return (elements + kSpan - 1) / kSpan; }

}  // namespace

int64_t sum_squares_workspace_bytes(int64_t elements) {
  return tensor::align_up(spans_of(elements) * static_cast<int64_t>(sizeof(double)));
}

double sum_squares(const Cpu& cpu, const TensorView& x, Workspace workspace) {
  check_float(x);
  const int64_t n = x.elements();
  INGOT_CHECK(static_cast<int64_t>(workspace.size()) >= sum_squares_workspace_bytes(n),
              "workspace of {} bytes, {} needed", workspace.size(), sum_squares_workspace_bytes(n));
  auto* partial = reinterpret_cast<double*>(workspace.data());
  cpu.pool.parallel_for(spans_of(n), [&](int64_t tile, int) {
    partial[tile] =
        sum_squares_span(x.dtype == DType::kBF16, x.data, tile * kSpan, std::min(n, (tile + 1) * kSpan));
  });
  double sum = 0;
  for (int64_t i = 0; i < spans_of(n); ++i) sum += partial[i];
  return sum;
}

void adamw(const Cpu& cpu, const AdamwArgs& args) {
  const int64_t n = args.param.elements();
  for (const TensorView* view : {&args.param, &args.m, &args.v, &args.grad}) {
    INGOT_CHECK(view->dtype == DType::kF32 && view->elements() == n, "AdamW over {} {} beside {} parameters",
                view->elements(), tensor::name_of(view->dtype), n);
  }
  if (!args.apply) return;
  cpu.pool.parallel_for(spans_of(n), [&](int64_t tile, int) {
    run_adamw_span(args, tile * kSpan, std::min(n, (tile + 1) * kSpan));
  });
}

}  // namespace ingot::backend::cpu
