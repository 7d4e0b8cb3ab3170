#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace ingot {
namespace {

TEST(Philox, KnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, CounterHasTheDocumentedLayout) {
  const PhiloxKey key = random_key(1337, RandomPurpose::kDropout, 9);
  const uint64_t element = (uint64_t{5} << 34) + 4 * 77 + 3;
  const uint64_t sample = (uint64_t{3} << 32) + 11;
  const PhiloxCounter block = philox4x32({77, 5, 11, 3}, key);
  static_assert((uint64_t{5} << 34) / 4 == uint64_t{5} << 32);
  for (uint64_t lane = 0; lane < 4; ++lane)
    EXPECT_EQ(random_bits(key, element - 3 + lane, sample), block[lane]);
}

TEST(Random, KeysDifferBySeedPurposeAndSite) {
  std::set<PhiloxKey> keys;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (const auto purpose : {RandomPurpose::kInit, RandomPurpose::kDropout, RandomPurpose::kShuffle}) {
      for (uint64_t site = 0; site < 50; ++site) keys.insert(random_key(seed, purpose, site));
    }
  }
  EXPECT_EQ(keys.size(), 3U * 3U * 50U);
}

TEST(Random, UniformHasRangeAndMoments) {
  const PhiloxKey key = random_key(1, RandomPurpose::kInit, 2);
  double sum = 0, square = 0;
  const int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const float u = random_uniform(key, static_cast<uint64_t>(i), 0);
    ASSERT_GE(u, 0.0F);
    ASSERT_LT(u, 1.0F);
    sum += u;
    square += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.004);
  EXPECT_NEAR(square / n, 1.0 / 3.0, 0.004);
}

TEST(Random, NormalHasMomentsAndIndependentNeighbours) {
  const PhiloxKey key = random_key(1, RandomPurpose::kInit, 3);
  double sum = 0, square = 0, fourth = 0, cross = 0, last = 0;
  const int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const double z = random_normal(key, static_cast<uint64_t>(i), 7);
    ASSERT_TRUE(std::isfinite(z));
    sum += z;
    square += z * z;
    fourth += z * z * z * z;
    cross += z * last;
    last = z;
  }
  EXPECT_NEAR(sum / n, 0.0, 0.015);
  EXPECT_NEAR(square / n, 1.0, 0.02);
  EXPECT_NEAR(fourth / n, 3.0, 0.15);
  EXPECT_NEAR(cross / n, 0.0, 0.015);
}

}  // namespace
}  // namespace ingot
