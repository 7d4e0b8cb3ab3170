#pragma once
// Chooses the next token from logits. Deterministic: the same seed, sequence number and position choose the
// same token.

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::train {

struct SamplingOptions {
  double temperature = 1.0;  // 0: always the most likely
  int64_t top_k = 0;         // keep the k most likely; 0: all
  double top_p = 1.0;        // then keep the smallest set with at least this probability
  uint64_t seed = 0;
};

class TokenSampler {
 public:
  TokenSampler(const SamplingOptions& options, int64_t vocab_size);
  // logits [V]; ties go to the smaller id. `sequence` and `position` number the draw.
  int32_t choose(std::span<const float> logits, int64_t sequence, int64_t position);

 private:
  SamplingOptions options_;
  std::vector<std::pair<float, int32_t>> candidates_;
};

}  // namespace ingot::train
