#include "backend/cpu/kernels/norm.h"

#include <algorithm>

#include "backend/cpu/kernels/float_types.h"
#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/kernels/product_plan.h"

namespace ingot::backend::cpu {
namespace {

using tensor::DType;
using tensor::TensorView;

constexpr int64_t kBlockRows = 32;  // of one task, and of one partial sum of dw and db

int64_t blocks_of(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }
unsigned bit_if_bf16(const TensorView& view, unsigned bit) { return view.dtype == DType::kBF16 ? bit : 0; }

void check_parameter(const TensorView& view, int64_t channels) {
  INGOT_CHECK(view.data == nullptr || (view.dtype == DType::kF32 && view.elements() == channels),
              "a parameter of a norm is {}, {} channels", view.shape.to_string(), channels);
}

}  // namespace

void norm_forward(const Cpu& cpu, const NormForwardArgs& args) {
  const int64_t rows = args.x.shape.rows(), channels = args.x.shape.last();
  check_float(args.x);
  check_float(args.y);
  check_same(args.x, args.y);
  check_parameter(args.w, channels);
  check_parameter(args.b, channels);
  if (args.delta.data != nullptr) {
    check_same(args.x, args.delta);
    check_same(args.x, args.x_out);
    INGOT_CHECK(args.delta.dtype == args.y.dtype && args.x_out.dtype == args.x.dtype,
                "delta has y's type and x_out has x's");
  }
  const NormRows n{.rms = args.kind == NormKind::kRms,
                   .epsilon = args.epsilon,
                   .channels = channels,
                   .types = bit_if_bf16(args.x, 1) | bit_if_bf16(args.y, 2),
                   .x = args.x.data,
                   .delta = args.delta.data,
                   .x_out = args.x_out.data,
                   .w = args.w.as<const float>(),
                   .b = args.b.as<const float>(),
                   .y = args.y.data};
  cpu.pool.parallel_for(blocks_of(rows), [&](int64_t block, int) {
    norm_forward_rows(n, block * kBlockRows, std::min(rows, (block + 1) * kBlockRows));
  });
}

int64_t norm_backward_workspace_bytes(int64_t rows, int64_t channels) {
  return 2 * tensor::align_up(blocks_of(rows) * channels * 4);
}

void norm_backward(const Cpu& cpu, const NormBackwardArgs& args) {
  const int64_t rows = args.x.shape.rows(), channels = args.x.shape.last();
  check_float(args.x);
  check_float(args.dy);
  check_same(args.x, args.dy);
  for (const TensorView* parameter : {&args.w, &args.dw, &args.db}) check_parameter(*parameter, channels);
  if (args.dx.data != nullptr) check_same(args.x, args.dx);
  INGOT_CHECK(args.residual_gradient.data == nullptr || args.residual_gradient.dtype == args.dx.dtype,
              "the residual's gradient has dx's type");
  const bool sums = args.dw.data != nullptr || args.db.data != nullptr;
  INGOT_CHECK(
      !sums || static_cast<int64_t>(args.workspace.size()) >= norm_backward_workspace_bytes(rows, channels),
      "workspace of {} bytes, {} needed", args.workspace.size(),
      norm_backward_workspace_bytes(rows, channels));
  auto* dw = reinterpret_cast<float*>(args.workspace.data());
  float* db = dw + tensor::align_up(blocks_of(rows) * channels * 4) / 4;
  NormRows n{.rms = args.kind == NormKind::kRms,
             .epsilon = args.epsilon,
             .channels = channels,
             .types = bit_if_bf16(args.x, 1) | bit_if_bf16(args.dy, 2) | bit_if_bf16(args.dx, 4),
             .x = args.x.data,
             .w = args.w.as<const float>(),
             .dy = args.dy.data,
             .residual_gradient = args.residual_gradient.data,
             .dx = args.dx.data};
  cpu.pool.parallel_for(blocks_of(rows), [&](int64_t block, int) {
    NormRows own = n;
    if (args.dw.data != nullptr) own.dw = dw + block * channels;
    if (args.db.data != nullptr) own.db = db + block * channels;
    norm_backward_rows(own, block * kBlockRows, std::min(rows, (block + 1) * kBlockRows));
  });
  if (args.dw.data != nullptr) add_partial_sums(cpu, dw, blocks_of(rows), args.beta, args.dw);
  if (args.db.data != nullptr) add_partial_sums(cpu, db, blocks_of(rows), args.beta, args.db);
}

}  // namespace ingot::backend::cpu
