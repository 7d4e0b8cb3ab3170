// The plan's figures for the CPU against the kernels' own: packed layouts to the byte, workspaces at least as
// large and hardly larger. A plan made elsewhere must hold here.

#include <gtest/gtest.h>

#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/head.h"
#include "backend/cpu/kernels/linear.h"
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/kernels/optimizer.h"
#include "graph/targets/cpu_workspace.h"

namespace ingot::backend::cpu {
namespace {

namespace planned = graph::cpu;
using tensor::DType;

void expect_fits(int64_t plan, int64_t kernel, const char* what) {
  EXPECT_GE(plan, kernel) << what;
  EXPECT_LE(plan, kernel + kernel / 20 + 4096) << what;
}

TEST(CpuWorkspace, PackedWeightsAreOfTheSameSize) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const int64_t out : {1, 63, 64, 65, 768, 50257})
      for (const int64_t in : {1, 7, 64, 767, 768}) {
        EXPECT_EQ(planned::packed_forward_bytes(dtype, out, in),
                  packed_weight_bytes(dtype, WeightUse::kForward, out, in));
        EXPECT_EQ(planned::packed_backward_bytes(dtype, out, in),
                  packed_weight_bytes(dtype, WeightUse::kBackward, out, in));
      }
}

TEST(CpuWorkspace, WorkspacesOfThePlanFitTheKernels) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const int64_t rows : {1, 31, 513, 4096})
      for (const int64_t channels : {1, 65, 768}) {
        for (const int64_t other : {1, 47, 3072})
          expect_fits(planned::weight_gradient_bytes(dtype, rows, other, channels),
                      weight_gradient_workspace_bytes(dtype, rows, other, channels), "weight gradient");
        for (const int64_t vocabulary : {11, 1024, 50257})
          for (const bool training : {false, true})
            expect_fits(planned::head_bytes(dtype, rows, channels, vocabulary, training),
                        head_workspace_bytes(dtype, rows, channels, vocabulary, training), "head");
        expect_fits(planned::norm_gradient_bytes(rows, channels),
                    norm_backward_workspace_bytes(rows, channels), "norm");
      }
  for (const int64_t elements : {1, 16384, 16385, 38597376})
    expect_fits(planned::sum_squares_bytes(elements), sum_squares_workspace_bytes(elements),
                "sum of squares");
}

TEST(CpuWorkspace, AttentionFitsAtAnyNumberOfThreads) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const int threads : {1, 2, 3, 64})
      for (const int64_t sequence : {1, 33, 64, 1024, 2049})
        for (const int64_t head_size : {2, 32, 64, 80, 128}) {
          const int64_t keys = head_size == 64 ? 3 * sequence : sequence;
          const AttentionShape shape{.batch = 3,
                                     .seq_len = sequence,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .head_size = head_size,
                                     .keys = keys};
          expect_fits(planned::attention_forward_bytes(sequence, keys, head_size, threads),
                      attention_forward_workspace_bytes(dtype, shape, threads), "attention");
          expect_fits(planned::cached_attention_bytes(sequence, threads),
                      cached_attention_workspace_bytes(sequence, threads), "cached attention");
          expect_fits(planned::attention_backward_bytes(sequence, keys, head_size, threads),
                      attention_backward_workspace_bytes(dtype, shape, threads), "attention gradient");
        }
}

}  // namespace
}  // namespace ingot::backend::cpu
