#pragma once
// FLOPs per trained token by the conventions in use, so that our MFU can be laid beside anyone's. One
// function knows them all (docs/design.md section 3; vectors in flops_test.cc).

#include <string_view>

#include "spec/spec.h"

namespace ingot::cost {

enum class FlopConvention : uint8_t {
  kMfu,        // 6 N_matmul + 12 L H D T: PaLM; ours as `mfu`
  kMfuCausal,  // attention halved: Megatron; ours as `mfu_causal`
  kNanoGpt,
  kLlmC,
  kTorchtitan,
  kMosaic,
  kLevanter,
  kNanotron,
};

struct ParameterCounts {
  int64_t total = 0;      // every parameter once
  int64_t matmul = 0;     // weights of matrix products, a tied head once, embeddings not
  int64_t embedding = 0;  // token embedding
  int64_t position = 0;   // position embedding
};
ParameterCounts count_parameters(const spec::ModelSpec& spec);

// FLOPs of forward and backward for one token of a sequence of `seq_len`; recompute never counts.
double flops_per_token(const spec::ModelSpec& spec, int64_t seq_len, FlopConvention convention);

}  // namespace ingot::cost
