#pragma once
// Scratch of the CPU kernels as functions of shapes and threads: upper bounds that hold on every CPU,
// whichever instructions it has, so that a plan made on one machine fits another. Sizes in bytes. Here and
// not in the backend, so that the toolkit plans without it; backend's cpu tests hold each against the formula
// of the kernel.

#include "tensor/tensor.h"

namespace ingot::graph::cpu {

// Packed weight [rows, columns] in panels of 64 columns of the product; see backend/cpu/kernels/linear.h.
int64_t packed_forward_bytes(tensor::DType dtype, int64_t rows, int64_t columns);
int64_t packed_backward_bytes(tensor::DType dtype, int64_t rows, int64_t columns);

int64_t weight_gradient_bytes(tensor::DType dtype, int64_t rows, int64_t out_features, int64_t in_features);
// Rows of a table of `vocabulary` that each of `parts` ranks holds, the last ones' filled up.
int64_t head_rows(int64_t vocabulary, int parts);
// `stored` of them.
int64_t head_bytes(tensor::DType dtype, int64_t rows, int64_t channels, int64_t stored, bool training);
int64_t attention_forward_bytes(int64_t queries, int64_t keys, int64_t head_size, int threads);
int64_t attention_backward_bytes(int64_t queries, int64_t keys, int64_t head_size, int threads);
int64_t cached_attention_bytes(int64_t cache_rows, int threads);
int64_t norm_gradient_bytes(int64_t rows, int64_t channels);
int64_t sum_squares_bytes(int64_t elements);

}  // namespace ingot::graph::cpu
