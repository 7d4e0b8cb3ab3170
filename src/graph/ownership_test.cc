#include "graph/ownership.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ingot::graph {
namespace {

// Two parameters of 21 and 40 stored elements in a bucket of 72, in shards of 18.
struct Fixture {
  Bucket bucket;
  Parameter small, large;
  Layout layout;

  Fixture() {
    bucket.parameters = {0, 1};
    bucket.offsets = {0, 32};
    bucket.elements = 72;
    bucket.shard_elements = 18;
    bucket.shard_axes = mask_of(Axis::kShard);
    small.stored = small.logical = Shape{3, 7};
    large.stored = large.logical = Shape{40};
    layout.mesh = make_mesh(4, 2, 1, 1, 1, 2).value();
  }
};

std::pair<int64_t, int64_t> pair_of(const Stretch& stretch) { return {stretch.first, stretch.count}; }

TEST(Ownership, ShardsOfABucketCutItsParameters) {
  const Fixture f;
  std::vector<std::pair<int64_t, int64_t>> small, large;
  for (int shard = 0; shard < 4; ++shard) {
    small.push_back(pair_of(owned_stretch(f.bucket, 0, f.small, f.layout.mesh, 2 * shard + 1)));
    large.push_back(pair_of(owned_stretch(f.bucket, 1, f.large, f.layout.mesh, 2 * shard)));
  }
  EXPECT_EQ(small, (std::vector<std::pair<int64_t, int64_t>>{{0, 18}, {18, 3}, {21, 0}, {21, 0}}));
  EXPECT_EQ(large, (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 4}, {4, 18}, {22, 18}}));
}

TEST(Ownership, WhatIsHeldFollowsTheStage) {
  Fixture f;
  const auto held = [&](const char* kind) {
    return held_stretch(f.bucket, 1, f.large, kind, f.layout, 4).count;
  };
  for (int stage = 0; stage <= 3; ++stage) {
    f.layout.zero_stage = stage;
    EXPECT_EQ(held("exp_avg"), stage >= 1 ? 18 : 40);
    EXPECT_EQ(held("exp_avg_sq"), stage >= 1 ? 18 : 40);
    EXPECT_EQ(held("grad"), stage >= 2 ? 18 : 40);
    EXPECT_EQ(held("param"), stage >= 3 ? 18 : 40);
  }
}

TEST(Ownership, EachElementIsWrittenOnce) {
  Fixture f;
  f.layout.mesh = make_mesh(8, 2, 1, 1, 1, 2, 4).value();
  std::vector<int> writers(40, 0);
  for (int rank = 0; rank < f.layout.mesh.world(); ++rank) {
    if (!writes_region(f.large, f.layout.mesh, rank, f.bucket.shard_axes)) continue;
    const Stretch owned = owned_stretch(f.bucket, 1, f.large, f.layout.mesh, rank);
    for (int64_t i = 0; i < owned.count; ++i) ++writers[static_cast<size_t>(owned.first + i)];
  }
  EXPECT_EQ(writers, std::vector<int>(40, 1));
}

}  // namespace
}  // namespace ingot::graph
