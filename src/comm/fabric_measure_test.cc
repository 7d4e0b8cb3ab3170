#include "comm/fabric_measure.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/hub_for_tests.h"

namespace ingot::comm {
namespace {

std::vector<FabricMeasure> measure(std::vector<std::unique_ptr<Transport>> world) {
  std::vector<FabricMeasure> measures(world.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < world.size(); ++rank) {
    threads.emplace_back([&, rank] {
      MeasureOptions options;
      options.sizes = {1 << 10, 256 << 10};
      options.seconds_each = 0.001;
      cost::Fabric before;
      before.network.bandwidth = 12345;
      auto measured = measure_fabric(*world[rank], before, options);
      ASSERT_TRUE(measured) << measured.error().message;
      measures[rank] = std::move(*measured);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return measures;
}

TEST(FabricMeasure, AllRanksHaveTheSameFabricAndEveryCandidateItsTime) {
  const auto measures = measure(make_hub_world(4, {.ranks_per_node = 2}));
  for (const FabricMeasure& each : measures) {
    EXPECT_EQ(each.fabric, measures[0].fabric);
    EXPECT_TRUE(each.has_node && each.has_network);
    EXPECT_GT(each.fabric.node.latency, 0);
    EXPECT_NE(each.fabric.network.bandwidth, 12345);
    ASSERT_EQ(each.collectives.size(), measures[0].collectives.size());
    int chosen = 0;
    for (const MeasuredCollective& row : each.collectives) {
      EXPECT_GT(row.seconds, 0) << row.algorithm;
      EXPECT_GT(row.predicted, 0) << row.algorithm;
      chosen += row.chosen;
    }
    EXPECT_EQ(chosen, 2);  // one a size
  }
}

TEST(FabricMeasure, RanksOfOneProcessHaveNoAlgorithmsToChooseFrom) {
  const auto measures = measure(make_local_world(2));
  EXPECT_FALSE(measures[0].has_network);
  EXPECT_EQ(measures[0].fabric.network.bandwidth, 12345);  // nobody has such a link
  ASSERT_EQ(measures[0].collectives.size(), 2U);
  EXPECT_EQ(measures[0].collectives[0].algorithm, "");
  EXPECT_GT(measures[0].collectives[1].seconds, 0);
}

}  // namespace
}  // namespace ingot::comm
