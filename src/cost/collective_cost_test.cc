#include "cost/collective_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ingot::cost {
namespace {

constexpr int64_t kFloat = 4;

Nodes nodes_of(int nodes, int each) {
  Nodes result;
  for (int i = 0; i < nodes * each; ++i) result.push_back(i / each);
  return result;
}

// A network on which only latency and bandwidth count, as in the formulas of theory.
Fabric ideal(double latency = 5e-6, double bandwidth = 1e9) {
  Fabric fabric;
  fabric.network = {latency, bandwidth};
  fabric.sum_bandwidth = 1e15;
  fabric.message_seconds = 0;
  fabric.switch_seconds = 0;
  return fabric;
}

double seconds(Collective operation, int64_t bytes, const Algorithm& algorithm, const Nodes& nodes,
               const Fabric& fabric, int64_t piece = int64_t{1} << 40) {
  return collective_seconds({operation, bytes / kFloat}, kFloat, algorithm, piece, nodes, fabric);
}

Algorithm flat(int members, Pattern pattern) { return {{{members, pattern}}}; }

TEST(CollectiveCost, FormulasOfTheory) {
  const Fabric fabric = ideal();
  const double a = fabric.network.latency, b = fabric.network.bandwidth;
  for (const int n : {2, 4, 8, 16}) {
    const Nodes nodes = nodes_of(n, 1);
    const double m = 1 << 20, rounds = n - 1, log = std::log2(n), part = (n - 1.0) / n * m / b;
    const auto bytes = static_cast<int64_t>(m);
    const auto near = [&](double actual, double expected) {
      EXPECT_NEAR(actual, expected, 3e-3 * expected) << n;
    };
    near(seconds(Collective::kReduceScatter, bytes, flat(n, Pattern::kRing), nodes, fabric),
         rounds * a + part);
    near(seconds(Collective::kAllGather, bytes, flat(n, Pattern::kRing), nodes, fabric), rounds * a + part);
    near(seconds(Collective::kAllReduce, bytes, flat(n, Pattern::kRing), nodes, fabric),
         2 * rounds * a + 2 * part);
    // Blocks of a round that are there go on before the others are: a little less than rounds in step.
    const double halving = seconds(Collective::kAllReduce, bytes, flat(n, Pattern::kHalving), nodes, fabric);
    EXPECT_LE(halving, 1.001 * (2 * log * a + 2 * part));
    EXPECT_GE(halving, 2 * part);
    // One round each: messages share the link, latency counts once.
    near(seconds(Collective::kAllReduce, bytes, flat(n, Pattern::kDirect), nodes, fabric), 2 * a + 2 * part);
    near(seconds(Collective::kBroadcast, 4, flat(n, Pattern::kTree), nodes, fabric), log * a);
    near(collective_seconds({Collective::kBarrier}, 1, flat(n, Pattern::kTree), 1, nodes, fabric),
         std::ceil(log) * a);
  }
}

TEST(CollectiveCost, APipelinedChainSendsAllBytesOnce) {
  const Fabric fabric = ideal(1e-6);
  const int64_t bytes = 64 << 20;
  const double time =
      seconds(Collective::kBroadcast, bytes, flat(8, Pattern::kRing), nodes_of(8, 1), fabric, 64 << 10);
  EXPECT_NEAR(time, static_cast<double>(bytes) / 1e9, 0.02 * time);
}

// Ranks of a node share its link: a flat ring sends one block of each round over it, the hierarchical one
// only its part of the data.
TEST(CollectiveCost, NodesOfTwoOnAGigabit) {
  Fabric fabric = ideal(50e-6, 125e6);
  fabric.node = {1e-6, 1e12};
  const Nodes nodes = nodes_of(3, 2);
  const int64_t bytes = 32 << 20;
  const double m = static_cast<double>(bytes), b = fabric.network.bandwidth;
  const double ring = seconds(Collective::kAllReduce, bytes, flat(6, Pattern::kRing), nodes, fabric, 1 << 20);
  EXPECT_NEAR(ring, 2 * 5.0 / 6 * m / b, 0.02 * ring);
  const Algorithm hierarchical{{{2, Pattern::kRing}, {3, Pattern::kRing}}};
  const double two = seconds(Collective::kAllReduce, bytes, hierarchical, nodes, fabric, 1 << 20);
  EXPECT_NEAR(two, 2 * 2.0 / 3 * m / b, 0.02 * two);
  const CollectiveChoice choice =
      choose_collective({Collective::kAllReduce, bytes / kFloat}, kFloat, nodes, false, fabric);
  EXPECT_EQ(choice.algorithm.dimensions.size(), 2U) << name_of(choice.algorithm);
  EXPECT_LE(choice.seconds, 1.001 * two);
}

// Nodes that are alike are played on one, with the same result as all of them.
TEST(CollectiveCost, OneNodeStandsForAll) {
  Fabric fabric;  // all effects
  fabric.network = {30e-6, 2e9};
  for (const auto& [count, each] : {std::pair{4, 2}, {3, 4}, {8, 1}, {2, 3}}) {
    const int n = count * each;
    const Nodes nodes = nodes_of(count, each);
    std::vector<Algorithm> tried = {
        flat(n, Pattern::kRing), flat(n, Pattern::kDirect), {{{n, Pattern::kRing}}, false, true}};
    if ((n & (n - 1)) == 0) tried.push_back(flat(n, Pattern::kHalving));
    if (each > 1) {
      tried.push_back({{{each, Pattern::kRing}, {count, Pattern::kRing}}});
      tried.push_back({{{each, Pattern::kDirect}, {count, Pattern::kExchange}}});
      tried.push_back({{{each, Pattern::kRing}, {count, Pattern::kRing}}, true});
    }
    for (const Algorithm& algorithm : tried) {
      for (const int64_t bytes : {4 << 10, 4 << 20}) {
        const CollectiveCall call{Collective::kAllReduce, bytes / kFloat};
        const double fast = collective_seconds(call, kFloat, algorithm, 256 << 10, nodes, fabric);
        const double all = collective_seconds(call, kFloat, algorithm, 256 << 10, nodes, fabric, true);
        EXPECT_NEAR(fast, all, 0.02 * all)
            << name_of(algorithm) << " " << count << " x " << each << " " << bytes;
      }
    }
  }
}

TEST(CollectiveCost, LatencyChoosesFewRoundsAndBandwidthFewBytes) {
  const Nodes nodes = nodes_of(8, 1);
  const Fabric fabric = ideal();
  const auto choice = [&](int64_t bytes, bool at_once) {
    return choose_collective({Collective::kAllReduce, bytes / kFloat}, kFloat, nodes, at_once, fabric);
  };
  EXPECT_EQ(name_of(choice(256, false).algorithm), "exchange");
  EXPECT_EQ(choice(64 << 20, true).algorithm, flat(8, Pattern::kDirect));
  const double bytes = 64 << 20, best = 2 * 7.0 / 8 * bytes / 1e9;
  EXPECT_NEAR(choice(64 << 20, false).seconds, best, 0.02 * best);
  for (int64_t size = 8; size < (8 << 20); size *= 4)
    EXPECT_LE(choice(size, false).seconds, choice(size * 4, false).seconds);
}

TEST(CollectiveCost, AMeasuredLibraryIsOneMoreCandidate) {
  Fabric fabric = ideal();
  const Nodes nodes = nodes_of(4, 1);
  const CollectiveCall call{Collective::kAllReduce, (1 << 20) / kFloat};
  const double ours = choose_collective(call, kFloat, nodes, false, fabric).seconds;
  fabric.library = {{Collective::kAllReduce, 512 << 10, ours}, {Collective::kAllReduce, 2 << 20, ours * 4}};
  EXPECT_FALSE(choose_collective(call, kFloat, nodes, false, fabric).library);  // between them: 2 x ours
  fabric.library = {{Collective::kAllReduce, 512 << 10, ours / 8},
                    {Collective::kAllReduce, 2 << 20, ours / 2}};
  const CollectiveChoice choice = choose_collective(call, kFloat, nodes, false, fabric);
  EXPECT_TRUE(choice.library);
  EXPECT_NEAR(choice.seconds, ours / 4, 1e-3 * ours);
}

TEST(CollectiveCost, ATorusUsesAllItsLinks) {
  Fabric fabric = ideal();
  fabric.torus = {4, 4};
  const std::vector<Algorithm> tried = candidates(Collective::kAllReduce, nodes_of(16, 1), false, fabric);
  int torus = 0;
  for (const Algorithm& algorithm : tried) torus += algorithm.dimensions.size() == 2;
  EXPECT_EQ(torus, 4);
}

TEST(CollectiveCost, BucketsGrowWithLatencyAndShrinkWithBandwidth) {
  const Nodes nodes = nodes_of(8, 1);
  const int64_t gradients = 500 << 20;
  const auto size = [&](double latency, double bandwidth, double compute) {
    return bucket_bytes(gradients, compute, nodes, ideal(latency, bandwidth));
  };
  EXPECT_LT(size(1e-6, 1e10, 0.1), size(1e-3, 1e10, 0.1));
  // Nothing to hide behind: all at once has the least latency.
  EXPECT_EQ(size(1e-2, 1e9, 0), gradients);
  EXPECT_EQ(bucket_bytes(gradients, 1, nodes_of(1, 1), ideal()), gradients);
}

TEST(CollectiveCost, AFabricIsWrittenReadAndDeclared) {
  Fabric fabric = ideal(3e-6, 7e9);
  fabric.torus = {4, 2};
  fabric.cores_per_node = 3;
  fabric.library = {{Collective::kAllGather, 1 << 20, 1e-3}};
  const auto read = fabric_from_json(to_json(fabric));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, fabric);
  EXPECT_FALSE(fabric_from_json("nothing"));
  EXPECT_FALSE(fabric_from_json("{\"format_version\": 1}"));
  spec::ClusterSpec cluster;
  cluster.links = {{"network", {50e9, 5e-6}}};
  const auto declared = declared_fabric(cluster, fabric);
  ASSERT_TRUE(declared);
  EXPECT_EQ(declared->network.bandwidth, 50e9);
  EXPECT_EQ(declared->node, fabric.node);
  cluster.links = {{"wires", {50e9, 5e-6}}};
  EXPECT_FALSE(declared_fabric(cluster, fabric));
}

}  // namespace
}  // namespace ingot::cost
