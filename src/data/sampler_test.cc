#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ingot::data {
namespace {

TEST(KeyedPermutation, IsABijectionForEverySize) {
  std::vector<int64_t> sizes;
  for (int64_t n = 1; n <= 70; ++n) sizes.push_back(n);
  for (const int64_t n : {127, 128, 129, 1000, 1023, 1025, 4097, 65537, 99991}) sizes.push_back(n);
  for (const int64_t n : sizes) {
    for (const uint64_t epoch : {0u, 1u}) {
      const KeyedPermutation permutation(n, 42, epoch);
      std::vector<bool> seen(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        const int64_t element = permutation(i);
        ASSERT_GE(element, 0);
        ASSERT_LT(element, n);
        ASSERT_FALSE(seen[static_cast<size_t>(element)]) << n << " " << i;
        seen[static_cast<size_t>(element)] = true;
        ASSERT_EQ(permutation.inverse(element), i);
      }
    }
  }
}

TEST(KeyedPermutation, HugeSizesRoundTrip) {
  for (const int64_t n : {int64_t{1'000'000'007}, int64_t{1'000'000'000'000}, (int64_t{1} << 62) - 57}) {
    const KeyedPermutation permutation(n, 1, 0);
    for (int64_t i = 0; i < 1000; ++i) {
      const int64_t at = i * (n / 1000);
      const int64_t element = permutation(at);
      ASSERT_TRUE(element >= 0 && element < n);
      ASSERT_EQ(permutation.inverse(element), at);
    }
  }
}

// The order is a promise to resumed runs: these never change.
TEST(KeyedPermutation, FixedVectors) {
  std::vector<int64_t> order;
  const KeyedPermutation permutation(10, 1234, 0);
  for (int64_t i = 0; i < 10; ++i) order.push_back(permutation(i));
  EXPECT_EQ(order, (std::vector<int64_t>{3, 2, 4, 7, 8, 9, 1, 6, 5, 0}));
  EXPECT_EQ(KeyedPermutation(1'000'000'000'000, 7, 3)(123'456'789), 933'479'607'140);
}

TEST(KeyedPermutation, OutsideIsRefused) {
  const KeyedPermutation permutation(10, 0, 0);
  EXPECT_DEATH((void)permutation(10), "permutation of 10");
  EXPECT_DEATH((void)permutation(-1), "permutation of 10");
}

// Where element i goes, in a table of 16 x 16 equal ranges: each cell should hold n / 256.
double chi_square(int64_t n, uint64_t seed, uint64_t epoch) {
  constexpr int64_t kRanges = 16;
  std::vector<double> cells(kRanges * kRanges);
  const KeyedPermutation permutation(n, seed, epoch);
  for (int64_t i = 0; i < n; ++i) {
    cells[static_cast<size_t>(i * kRanges / n * kRanges + permutation(i) * kRanges / n)] += 1;
  }
  const double expected = static_cast<double>(n) / (kRanges * kRanges);
  double sum = 0;
  for (const double cell : cells) sum += (cell - expected) * (cell - expected) / expected;
  return sum;
}

TEST(KeyedPermutation, ChiSquareOfPlaceAgainstElement) {
  // 225 degrees of freedom (rows and columns are fixed): mean 225, deviation 21.2.
  double total = 0;
  int cases = 0;
  for (const int64_t n : {20001, 65536, 70000}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const double chi = chi_square(n, seed, seed % 3);
      EXPECT_LT(chi, 225 + 5 * 21.2) << n << " " << seed;
      EXPECT_GT(chi, 225 - 5 * 21.2) << n << " " << seed;
      total += chi;
      ++cases;
    }
  }
  EXPECT_NEAR(total / cases, 225, 4 * 21.2 / std::sqrt(cases));
}

TEST(KeyedPermutation, NeighboursAreNotKept) {
  // In a random order the difference of neighbours is 1 with probability about 1/n, and half of the steps go
  // up.
  constexpr int64_t kSize = 100003;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const KeyedPermutation permutation(kSize, seed, 0);
    int64_t next_to = 0, up = 0, fixed = 0;
    for (int64_t i = 0; i + 1 < kSize; ++i) {
      const int64_t a = permutation(i), b = permutation(i + 1);
      next_to += b == a + 1;
      up += b > a;
      fixed += a == i;
    }
    EXPECT_LT(next_to, 10);
    EXPECT_LT(fixed, 10);
    EXPECT_NEAR(static_cast<double>(up) / kSize, 0.5, 0.01);
  }
}

TEST(KeyedPermutation, EverySmallOrderIsReached) {
  // 4! orders of 4 elements from 24,000 seeds: each about 1,000 times, deviation 31.
  std::vector<int> counts(256);
  for (uint64_t seed = 0; seed < 24000; ++seed) {
    const KeyedPermutation permutation(4, seed, 0);
    int64_t code = 0;
    for (int64_t i = 0; i < 4; ++i) code = code * 4 + permutation(i);
    ++counts[static_cast<size_t>(code)];
  }
  int reached = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++reached;
    EXPECT_NEAR(count, 1000, 200);
  }
  EXPECT_EQ(reached, 24);
}

TEST(Sampler, GlobalIndexRunsOnOverEpochs) {
  const Sampler sampler = Sampler::shuffled(11, 5);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<bool> seen(11);
    for (int64_t i = 0; i < 11; ++i) {
      const SampleChoice choice = sampler.at(epoch * 11 + i);
      EXPECT_EQ(choice.epoch, epoch);
      EXPECT_EQ(choice.element, KeyedPermutation(11, 5, static_cast<uint64_t>(epoch))(i));
      EXPECT_EQ(sampler.when(choice), epoch * 11 + i);
      seen[static_cast<size_t>(choice.element)] = true;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 11);
  }
  EXPECT_EQ(Sampler::sequential(11).at(25).element, 3);
}

}  // namespace
}  // namespace ingot::data
