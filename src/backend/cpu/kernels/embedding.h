#pragma once
// Rows of a table by id, and the gradient: rows added in the order of tokens, each row by one thread.

#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu {

// y[r] = table[ids[r] − first_id]; a row whose id lies outside the table gives zero
// (the table of a vocabulary-parallel rank holds a part).
struct EmbeddingArgs {
  tensor::TensorView ids;  // [R] i32
  int64_t first_id = 0;
  tensor::TensorView table;  // [V, C] f32 or bf16
  tensor::TensorView y;      // [R, C] f32 or bf16
};
void embedding_forward(const Cpu& cpu, const EmbeddingArgs& args);

// dtable = beta · dtable + Σ over rows with that id of dy.
struct EmbeddingGradientArgs {
  tensor::TensorView ids;  // [R] i32
  int64_t first_id = 0;
  tensor::TensorView dy;      // [R, C] f32 or bf16
  float beta = 0;             // 0 or 1
  tensor::TensorView dtable;  // [V, C] f32
};
void embedding_gradient(const Cpu& cpu, const EmbeddingGradientArgs& args);

}  // namespace ingot::backend::cpu
