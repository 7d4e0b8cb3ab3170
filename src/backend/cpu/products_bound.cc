// Instructions that are matrix products: linear and its gradients, the output head, packing.

#include "backend/cpu/bound_node.h"
#include "backend/cpu/kernels/head.h"
#include "backend/cpu/kernels/linear.h"
#include "graph/ops.h"
#include "graph/targets/cpu_workspace.h"

namespace ingot::backend::cpu {

void run_linear(const KernelArgs& args, void* state) {
  product(cpu_of(args, state), {.a = args.inputs[0],
                                .packed = bytes_of(args.inputs[1]),
                                .bias = optional(args.inputs, 2),
                                .addend = {},
                                .y = args.outputs[0]});
}

void run_linear_dx(const KernelArgs& args, void* state) {
  product(cpu_of(args, state), {.a = args.inputs[0],
                                .packed = bytes_of(args.inputs[1]),
                                .bias = {},
                                .addend = optional(args.inputs, 2),
                                .y = args.outputs[0]});
}

void run_linear_dw(const KernelArgs& args, void* state) {
  weight_gradient(cpu_of(args, state), {.x = args.inputs[0],
                                        .dy = args.inputs[1],
                                        .beta = beta_of(args),
                                        .dw = args.outputs[0],
                                        .db = optional(args.outputs, 1),
                                        .workspace = args.workspace});
}

namespace {

// x, w forward, labels: what statistics and loss read alike.
HeadArgs head_of(const KernelArgs& args) {
  const int64_t stored = graph::cpu::head_rows(args.attributes->vocabulary, args.attributes->group_size);
  HeadArgs head;
  head.x = args.inputs[0];
  head.part = {args.attributes->vocabulary, args.group_index * stored, stored};
  head.forward = bytes_of(args.inputs[1]);
  head.labels = args.inputs[2];
  head.workspace = args.workspace;
  return head;
}

}  // namespace

void run_head_stats(const KernelArgs& args, void* state) {
  head_statistics(cpu_of(args, state), head_of(args), args.outputs[0]);
}

// x, w forward, labels, loss_mask, scalars, [statistics], and with gradient w backward -> sums, and with
// gradient dx, dw.
void run_head_loss(const KernelArgs& args, void* state) {
  HeadArgs head = head_of(args);
  head.mask = args.inputs[3];
  if (args.attributes->group_size > 1) head.statistics = args.inputs[5];
  if (args.attributes->with_gradient) {
    head.backward = bytes_of(args.inputs.back());
    head.scale = static_cast<float>(graph::gradient_scale(args.inputs[4].as<double>(), *args.attributes));
    head.dx = args.outputs[1];
    head.dw = args.outputs[2];
    head.beta = beta_of(args);
  }
  const HeadResult result = head_cross_entropy(cpu_of(args, state), head);
  double* sums = args.outputs[0].as<double>();
  sums[graph::kLossSum] += args.attributes->weight * result.loss_sum;
  sums[graph::kTokenCount] += args.attributes->weight * result.tokens;
}

void run_pack(const KernelArgs& args, void* state) {
  const std::string& layout = args.attributes->layout;
  const TensorView& out = args.outputs[0];
  const std::span<std::byte> bytes{out.as<std::byte>(), static_cast<size_t>(out.bytes())};
  PackWeightArgs pack;
  pack.w = args.inputs[0];
  pack.dtype = layout.find("bf16") != std::string::npos ? tensor::DType::kBF16 : tensor::DType::kF32;
  (layout.ends_with("_backward") ? pack.backward : pack.forward) = bytes;
  pack_weight(cpu_of(args, state), pack);
}

}  // namespace ingot::backend::cpu
