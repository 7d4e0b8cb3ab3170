#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11). A value depends on (seed, purpose,
// site, element, sample) alone: no step, micro-batch, rank or vector width enters, so every layout draws the
// same.

#include <array>
#include <cstdint>
#include <string_view>

namespace ingot {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds; known-answer vectors of Random123 are in random_test.cc.
PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

// What the numbers are for: part of the key, so that two uses never share a stream.
enum class RandomPurpose : uint32_t {
  kInit = 1,
  kDropout = 2,
  kShuffle = 3,
  kSplit = 4,
  kSample = 5,
  kMixture = 6
};

// 64-bit hash of (seed, purpose, site) as a Philox key. A site is a stable number of the place that draws,
// for instance hash64 of a parameter's name or the dropout's index in the model.
PhiloxKey random_key(uint64_t seed, RandomPurpose purpose, uint64_t site);

// 32 random bits of element `element` of sample `sample`: lane element % 4 of counter {element/4 low, high,
// sample low, high}.
uint32_t random_bits(PhiloxKey key, uint64_t element, uint64_t sample);

// In [0, 1) with 24 bits.
float random_uniform(PhiloxKey key, uint64_t element, uint64_t sample);

// Standard normal by Box-Muller over lanes (0,1) and (2,3) of the element's counter block, in double.
double random_normal(PhiloxKey key, uint64_t element, uint64_t sample);

}  // namespace ingot
