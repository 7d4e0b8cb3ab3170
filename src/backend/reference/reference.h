#pragma once
// The reference backend: every operation of graph/ops.h in plain loops, in double, one thread. What the other
// backends are compared with, and what proofs run on. Operands of each kernel: graph/ops.h.

#include "backend/backend.h"
#include "graph/ops.h"

namespace ingot::backend::reference {

Result<std::unique_ptr<Backend>> make();

// The same kernels in a memory space of their own (1): proves programs of two memory spaces on any machine.
const graph::Target& far_target();
Result<std::unique_ptr<Backend>> make_far();

// linear.cc
void linear(const KernelArgs& args, void*);
void linear_dx(const KernelArgs& args, void*);
void linear_dw(const KernelArgs& args, void*);
// norm.cc
void norm(const KernelArgs& args, void*);
void norm_dx(const KernelArgs& args, void*);
void norm_dw(const KernelArgs& args, void*);
// embedding.cc
void embed(const KernelArgs& args, void*);
void embed_dw(const KernelArgs& args, void*);
void rotary(const KernelArgs& args, void*);
// Radians a position of pair i: theta^(-2i/D), with the scaling of Llama 3.1 (Hugging Face's rope type
// "llama3"): long waves are stretched by the factor, short ones kept, those between interpolated.
double rotary_frequency(const graph::Attributes& attributes, int64_t i);
// attention.cc
void attention(const KernelArgs& args, void*);
void attention_grad(const KernelArgs& args, void*);
void attention_merge(const KernelArgs& args, void*);
void cache_append(const KernelArgs& args, void*);
void attention_cached(const KernelArgs& args, void*);
// elementwise.cc
void activation(const KernelArgs& args, void*);
void activation_grad(const KernelArgs& args, void*);
void add(const KernelArgs& args, void*);
void dropout(const KernelArgs& args, void*);
double activate(graph::ActivationKind kind, double x);
// movement.cc
void copy(const KernelArgs& args, void*);
void cast(const KernelArgs& args, void*);
void zero(const KernelArgs& args, void*);
void slice(const KernelArgs& args, void*);
// head.cc
void head_stats(const KernelArgs& args, void*);
void head_loss(const KernelArgs& args, void*);
// optimizer.cc
void sum_squares(const KernelArgs& args, void*);
void control(const KernelArgs& args, void*);
void adamw(const KernelArgs& args, void*);

}  // namespace ingot::backend::reference
