#include "graph/targets/cpu_workspace.h"

#include <algorithm>

namespace ingot::graph::cpu {
namespace {

using tensor::align_up;
using tensor::DType;

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }
int64_t padded(int64_t size, int64_t block) { return blocks(size, block) * block; }

constexpr int64_t kPanel = 64;
constexpr int64_t kHeadRows = 512;   // of one chunk of the output head
constexpr int64_t kQueryBlock = 32;  // rows of scores that attention holds
constexpr int64_t kKeyBlock = 64;    // keys of one step of its gradient
constexpr int64_t kFloat = 4;

// f32 [N/64][K][64], bf16 [N/64][K/2][64][2]; N, and an odd K of bf16, padded with zeros.
int64_t panel_bytes(DType dtype, int64_t columns, int64_t reduction) {
  const int64_t pairs = dtype == DType::kBF16 ? 2 : 1;
  return padded(columns, kPanel) * padded(reduction, pairs) * tensor::size_of(dtype);
}

// Both operands of a weight gradient are packed over their rows: panels of 8 and of 48.
int64_t gradient_panels(DType dtype, int64_t rows, int64_t out, int64_t in) {
  const int64_t stride = padded(rows, 4), element = tensor::size_of(dtype);
  return align_up(padded(out, 8) * stride * element) + align_up(padded(in, 48) * stride * element);
}

// Least and greatest of 32 positions, and stretches of blocks in which there is anything to see.
int64_t visibility_bounds(int64_t queries, int64_t keys) {
  constexpr int64_t kBoundsBlock = 32, kQueryBounds = 16, kKeyBounds = 8, kRun = 16;
  const int64_t q = queries / kBoundsBlock, k = keys / kBoundsBlock;
  return align_up(q * kQueryBounds + k * kKeyBounds + (std::max(q, k) + 1) / 2 * kRun);
}

// Positions and document starts where the caller gives none.
int64_t default_visibility(int64_t sequence) { return align_up(2 * sequence * kFloat); }

}  // namespace

int64_t packed_forward_bytes(DType dtype, int64_t rows, int64_t columns) {
  return panel_bytes(dtype, rows, columns);
}
int64_t packed_backward_bytes(DType dtype, int64_t rows, int64_t columns) {
  return panel_bytes(dtype, columns, rows);
}

int64_t weight_gradient_bytes(DType dtype, int64_t rows, int64_t out_features, int64_t in_features) {
  constexpr int64_t kBiasRows = 64;  // of one partial sum of the bias gradient
  return gradient_panels(dtype, rows, out_features, in_features) +
         align_up(blocks(rows, kBiasRows) * out_features * kFloat);
}

int64_t head_rows(int64_t vocabulary, int parts) { return blocks(vocabulary, parts); }

int64_t head_bytes(DType dtype, int64_t rows, int64_t channels, int64_t stored, bool training) {
  constexpr int64_t kPage = 4096, kLine = 64;
  const int64_t chunk = std::min(rows, kHeadRows);
  int64_t logit_row = align_up(stored * tensor::size_of(dtype), kLine);
  if (logit_row % kPage == 0) logit_row += kLine;  // rows a page apart would share cache sets
  const int64_t statistics = 3 * align_up(chunk * kFloat);
  if (!training) return chunk * logit_row + statistics;
  return chunk * logit_row + gradient_panels(dtype, chunk, stored, channels) + statistics;
}

// The larger of what the bf16 kernels and the portable ones hold of a head.
int64_t attention_forward_bytes(int64_t queries, int64_t keys, int64_t head_size, int threads) {
  const int64_t t = padded(queries, kKeyBlock), s = padded(keys, kKeyBlock), d = padded(head_size, 16);
  const int64_t native = s * d * 4 + kQueryBlock * ((s + 16) * 4 + (s + 32) * 2);
  const int64_t portable = kFloat * (2 * s * d + kQueryBlock * d + kQueryBlock * (s + 16) + 2 * t + s);
  return default_visibility(queries) +
         threads * (visibility_bounds(t, s) + align_up(std::max(native, portable)));
}

int64_t attention_backward_bytes(int64_t queries, int64_t keys, int64_t head_size, int threads) {
  const int64_t t = padded(queries, kKeyBlock), s = padded(keys, kKeyBlock), d = padded(head_size, 16);
  const int64_t native = t * d * 8 + kKeyBlock * (t + 32) * 4 + kKeyBlock / 2 * ((t + 16) * 4 + d * 4) +
                         t * (d * 4 + 8) + s * 2 * d * 4;
  const int64_t portable = kFloat * (5 * t * d + 2 * s * d + 2 * kKeyBlock * (d + t + 16) + 4 * t + s);
  return default_visibility(queries) +
         threads * (visibility_bounds(t, s) + align_up(std::max(native, portable)));
}

int64_t cached_attention_bytes(int64_t cache_rows, int threads) {
  return threads * align_up(cache_rows * kFloat);
}

int64_t norm_gradient_bytes(int64_t rows, int64_t channels) {
  constexpr int64_t kRows = 32;  // of one partial sum
  return 2 * align_up(blocks(rows, kRows) * channels * kFloat);
}

int64_t sum_squares_bytes(int64_t elements) {
  constexpr int64_t kSpan = 16384;  // of one partial sum
  return align_up(blocks(elements, kSpan) * 8);
}

}  // namespace ingot::graph::cpu
