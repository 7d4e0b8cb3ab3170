#pragma once
// The order of samples: a function of (seed, global sample index) alone, in O(1) memory, for any number of
// ranks. A keyed permutation of [0, n) by a balanced Feistel network of six rounds over 2 h bits, h =
// ceil(bits(n - 1) / 2), with cycle walking (Black and Rogaway, CT-RSA 2002): what falls outside [0, n) is
// permuted again, and since the domain has at most 4 n elements that takes fewer than four turns on average.
// The order is part of what a run reproduces: sampler_test.cc fixes vectors, and changing them breaks resume.

#include <array>
#include <cstdint>

namespace ingot::data {

class KeyedPermutation {
 public:
  // n >= 1. The round keys come from Philox with (seed, kShuffle, epoch).
  KeyedPermutation(int64_t n, uint64_t seed, uint64_t epoch);
  int64_t size() const { return n_; }
  int64_t operator()(int64_t i) const;     // i in [0, n): a check, since walking from outside may never end
  int64_t inverse(int64_t element) const;  // which i gives element: "when was sample X seen?"

 private:
  static constexpr int kRounds = 6;
  int64_t n_;
  int half_bits_;
  uint64_t half_mask_;
  std::array<uint64_t, kRounds> keys_;
};

struct SampleChoice {
  int64_t epoch = 0;
  int64_t element = 0;  // sample of the stream
};

// Global sample index g is element permutation(g mod n) of epoch g / n.
class Sampler {
 public:
  static Sampler shuffled(int64_t samples, uint64_t seed) { return Sampler(samples, seed, true); }
  static Sampler sequential(int64_t samples) { return Sampler(samples, 0, false); }  // evaluation
  int64_t samples() const { return samples_; }
  SampleChoice at(int64_t global_sample) const;
  // The global sample index at which `element` is seen in `epoch`.
  int64_t when(SampleChoice choice) const;

 private:
  Sampler(int64_t samples, uint64_t seed, bool shuffle);
  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
};

}  // namespace ingot::data
