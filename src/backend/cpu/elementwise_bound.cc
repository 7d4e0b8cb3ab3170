// Norms, activations, embedding, dropout, casts and the update.

#include <cmath>

#include "backend/cpu/bound_node.h"
#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/embedding.h"
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/kernels/optimizer.h"
#include "graph/ops.h"

namespace ingot::backend::cpu {
namespace {

NormKind norm_kind(const KernelArgs& args) {
  return args.attributes->rms ? NormKind::kRms : NormKind::kLayer;
}

Activation activation_kind(const KernelArgs& args) {
  switch (args.attributes->activation) {
    case graph::ActivationKind::kGeluErf:
      return Activation::kGeluErf;
    case graph::ActivationKind::kSilu:
      return Activation::kSilu;
    default:
      return Activation::kGeluTanh;
  }
}

bool is_swiglu(const KernelArgs& args) {
  return args.attributes->activation == graph::ActivationKind::kSwiGlu;
}

}  // namespace

void run_embed(const KernelArgs& args, void* state) {
  embedding_forward(cpu_of(args, state), {.ids = args.inputs[0],
                                          .first_id = args.group_index * args.inputs[1].shape[0],
                                          .table = args.inputs[1],
                                          .y = args.outputs[0]});
}

void run_embed_dw(const KernelArgs& args, void* state) {
  embedding_gradient(cpu_of(args, state), {.ids = args.inputs[0],
                                           .first_id = args.group_index * args.outputs[0].shape[0],
                                           .dy = args.inputs[1],
                                           .beta = beta_of(args),
                                           .dtable = args.outputs[0]});
}

// x, w, [bias]; with two outputs x, d, w, [bias] -> x + d, norm(x + d).
void run_norm(const KernelArgs& args, void* state) {
  const size_t fused = args.outputs.size() == 2 ? 1 : 0;
  NormForwardArgs norm;
  norm.kind = norm_kind(args);
  norm.epsilon = static_cast<float>(args.attributes->epsilon);
  norm.x = args.inputs[0];
  if (fused == 1) {
    norm.delta = args.inputs[1];
    norm.x_out = args.outputs[0];
  }
  norm.w = args.inputs[1 + fused];
  norm.b = optional(args.inputs, 2 + fused);
  norm.y = args.outputs[fused];
  norm_forward(cpu_of(args, state), norm);
}

void run_norm_dx(const KernelArgs& args, void* state) {
  NormBackwardArgs norm;
  norm.kind = norm_kind(args);
  norm.epsilon = static_cast<float>(args.attributes->epsilon);
  norm.x = args.inputs[0];
  norm.w = args.inputs[1];
  norm.dy = args.inputs[2];
  norm.residual_gradient = optional(args.inputs, 3);
  norm.dx = args.outputs[0];
  norm_backward(cpu_of(args, state), norm);
}

void run_norm_dw(const KernelArgs& args, void* state) {
  NormBackwardArgs norm;
  norm.kind = norm_kind(args);
  norm.epsilon = static_cast<float>(args.attributes->epsilon);
  norm.x = args.inputs[0];
  norm.dy = args.inputs[1];
  norm.beta = beta_of(args);
  norm.dw = args.outputs[0];
  norm.db = optional(args.outputs, 1);
  norm.workspace = args.workspace;
  norm_backward(cpu_of(args, state), norm);
}

void run_activation(const KernelArgs& args, void* state) {
  if (is_swiglu(args)) {
    SwigluArgs swiglu;
    swiglu.gate = args.inputs[0];
    swiglu.up = args.inputs[1];
    swiglu.y = args.outputs[0];
    swiglu_forward(cpu_of(args, state), swiglu);
  } else {
    activation_forward(cpu_of(args, state), activation_kind(args), args.inputs[0], args.outputs[0]);
  }
}

void run_activation_grad(const KernelArgs& args, void* state) {
  if (is_swiglu(args)) {
    SwigluArgs swiglu;
    swiglu.gate = args.inputs[0];
    swiglu.up = args.inputs[1];
    swiglu.dy = args.inputs[2];
    swiglu.dgate = args.outputs[0];
    swiglu.dup = args.outputs[1];
    swiglu_backward(cpu_of(args, state), swiglu);
  } else {
    activation_backward(cpu_of(args, state), activation_kind(args), args.inputs[0], args.inputs[1],
                        args.outputs[0]);
  }
}

void run_add(const KernelArgs& args, void* state) {
  add(cpu_of(args, state), args.inputs[0], args.inputs[1], args.outputs[0]);
}

void run_dropout(const KernelArgs& args, void* state) {
  dropout(cpu_of(args, state), {.key = random_key(args.seed, RandomPurpose::kDropout, args.attributes->site),
                                .rate = static_cast<float>(args.attributes->rate),
                                .x = args.inputs[0],
                                .position = args.inputs[2],
                                .sample = args.inputs[1],
                                .y = args.outputs[0]});
}

void run_cast(const KernelArgs& args, void* state) {
  const double scale = args.attributes->scale;
  cast(cpu_of(args, state), args.inputs[0], args.outputs[0], scale == 0 ? 1.0F : static_cast<float>(scale));
}

void run_zero(const KernelArgs& args, void* state) { zero(cpu_of(args, state), args.outputs[0]); }

void run_sum_squares(const KernelArgs& args, void* state) {
  args.outputs[0].as<double>()[graph::kSumSquares] +=
      args.attributes->weight * sum_squares(cpu_of(args, state), args.inputs[0], args.workspace);
}

// g, scalars, step block, w, m, v -> w, m, v in place.
void run_adamw(const KernelArgs& args, void* state) {
  const double* scalars = args.inputs[1].as<double>();
  const double* step = args.inputs[2].as<double>();
  const graph::Attributes& attributes = *args.attributes;
  const double t = scalars[graph::kAdamStep];
  AdamwArgs update;
  update.grad = args.inputs[0];
  update.param = args.outputs[0];
  update.m = args.outputs[1];
  update.v = args.outputs[2];
  update.grad_scale = static_cast<float>(scalars[graph::kUpdateFactor]);
  update.apply = scalars[graph::kApply] != 0;
  update.learning_rate = static_cast<float>(step[graph::kLearningRate] * attributes.learning_rate_factor);
  update.beta1 = static_cast<float>(attributes.beta1);
  update.beta2 = static_cast<float>(attributes.beta2);
  update.epsilon = static_cast<float>(attributes.epsilon);
  update.bias_correction1 = static_cast<float>(1 - std::pow(attributes.beta1, t));
  update.bias_correction2 = static_cast<float>(1 - std::pow(attributes.beta2, t));
  update.weight_decay = static_cast<float>(attributes.weight_decay);
  adamw(cpu_of(args, state), update);
}

}  // namespace ingot::backend::cpu
