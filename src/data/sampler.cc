#include "data/sampler.h"

#include <bit>

#include "base/check.h"
#include "base/random.h"

namespace ingot::data {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every input bit moves every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

KeyedPermutation::KeyedPermutation(int64_t n, uint64_t seed, uint64_t epoch) : n_(n), keys_{} {
  INGOT_CHECK(n >= 1, "a permutation of {} elements", n);
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(n - 1)));
  half_bits_ = (bits + 1) / 2;
  half_mask_ = (uint64_t{1} << half_bits_) - 1;
  const PhiloxKey key = random_key(seed, RandomPurpose::kShuffle, epoch);
  for (size_t round = 0; round < keys_.size(); ++round) {
    const uint64_t element = 2 * round;
    keys_[round] = uint64_t{random_bits(key, element + 1, 0)} << 32 | random_bits(key, element, 0);
  }
}

int64_t KeyedPermutation::operator()(int64_t i) const {
  INGOT_CHECK(i >= 0 && i < n_, "element {} of a permutation of {}", i, n_);
  uint64_t x = static_cast<uint64_t>(i);
  do {
    uint64_t left = x >> half_bits_;
    uint64_t right = x & half_mask_;
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (mix(right ^ key) & half_mask_);
      left = right;
      right = next;
    }
    x = left << half_bits_ | right;
  } while (x >= static_cast<uint64_t>(n_));
  return static_cast<int64_t>(x);
}

int64_t KeyedPermutation::inverse(int64_t element) const {
  INGOT_CHECK(element >= 0 && element < n_, "element {} of a permutation of {}", element, n_);
  uint64_t x = static_cast<uint64_t>(element);
  do {
    uint64_t left = x >> half_bits_;
    uint64_t right = x & half_mask_;
    for (size_t round = keys_.size(); round-- > 0;) {
      const uint64_t before = right ^ (mix(left ^ keys_[round]) & half_mask_);
      right = left;
      left = before;
    }
    x = left << half_bits_ | right;
  } while (x >= static_cast<uint64_t>(n_));
  return static_cast<int64_t>(x);
}

Sampler::Sampler(int64_t samples, uint64_t seed, bool shuffle)
    : samples_(samples), seed_(seed), shuffle_(shuffle) {
  INGOT_CHECK(samples >= 1, "an order of {} samples", samples);
}

SampleChoice Sampler::at(int64_t global_sample) const {
  INGOT_CHECK(global_sample >= 0, "global sample {}", global_sample);
  SampleChoice choice{global_sample / samples_, global_sample % samples_};
  if (shuffle_)
    choice.element = KeyedPermutation(samples_, seed_, static_cast<uint64_t>(choice.epoch))(choice.element);
  return choice;
}

int64_t Sampler::when(SampleChoice choice) const {
  const int64_t within =
      shuffle_
          ? KeyedPermutation(samples_, seed_, static_cast<uint64_t>(choice.epoch)).inverse(choice.element)
          : choice.element;
  return choice.epoch * samples_ + within;
}

}  // namespace ingot::data
