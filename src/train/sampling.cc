#include "train/sampling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/random.h"

namespace ingot::train {
namespace {

bool more_likely(const std::pair<float, int32_t>& a, const std::pair<float, int32_t>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

}  // namespace

TokenSampler::TokenSampler(const SamplingOptions& options, int64_t vocab_size) : options_(options) {
  INGOT_CHECK(vocab_size > 0, "empty vocabulary");
  candidates_.reserve(static_cast<size_t>(vocab_size));
}

int32_t TokenSampler::choose(std::span<const float> logits, int64_t sequence, int64_t position) {
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) candidates_.emplace_back(logits[i], static_cast<int32_t>(i));
  const auto top = std::min_element(candidates_.begin(), candidates_.end(), more_likely);
  if (options_.temperature <= 0) return top->second;
  const float highest = top->first;
  std::sort(candidates_.begin(), candidates_.end(), more_likely);
  size_t kept = candidates_.size();
  if (options_.top_k > 0) kept = std::min(kept, static_cast<size_t>(options_.top_k));
  double total = 0;
  for (size_t i = 0; i < kept; ++i) {
    const double weight =
        std::exp((static_cast<double>(candidates_[i].first) - highest) / options_.temperature);
    candidates_[i].first = static_cast<float>(weight);
    total += weight;
  }
  if (options_.top_p < 1.0) {
    double sum = 0;
    size_t n = 0;
    while (n < kept && sum < options_.top_p * total) sum += static_cast<double>(candidates_[n++].first);
    kept = std::max<size_t>(n, 1);
    total = sum;
  }
  const PhiloxKey key = random_key(options_.seed, RandomPurpose::kSample, 0);
  double draw = static_cast<double>(
                    random_uniform(key, static_cast<uint64_t>(position), static_cast<uint64_t>(sequence))) *
                total;
  for (size_t i = 0; i < kept; ++i) {
    draw -= static_cast<double>(candidates_[i].first);
    if (draw < 0) return candidates_[i].second;
  }
  return candidates_[kept - 1].second;  // rounding left a crumb
}

}  // namespace ingot::train
