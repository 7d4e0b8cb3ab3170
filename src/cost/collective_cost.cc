#include "cost/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace ingot::cost {
namespace {

constexpr int64_t kPieces[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20};
constexpr int64_t kUsualPiece = 256 << 10;
constexpr int64_t kMostPieces = 512;  // of a member's block: more are slow to plan and gain nothing
constexpr int kFewMembers = 64;       // patterns of one round send a message to each

// Members of one node, where all nodes have equally many and these follow each other; 0 where not.
int members_per_node(const Nodes& nodes) {
  std::map<int, int> count;
  for (const int node : nodes) ++count[node];
  const int each = count.begin()->second;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (count[nodes[i]] != each || nodes[i] != nodes[i - i % static_cast<size_t>(each)]) return 0;
  return each;
}

int64_t largest_block(const CollectiveCall& call, int64_t element_bytes, int members) {
  if (call.operation == Collective::kBroadcast) return call.elements * element_bytes;
  return call.elements * element_bytes / members;
}

// Between measured sizes: straight lines over the logarithms; beyond them in proportion.
std::optional<double> library_seconds(const Fabric& fabric, Collective operation, int64_t bytes) {
  std::map<int64_t, double> points;
  for (const LibraryTime& time : fabric.library)
    if (time.operation == operation) points[time.bytes] = time.seconds;
  if (points.empty() || bytes <= 0) return {};
  const auto above = points.lower_bound(bytes);
  if (above == points.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == points.end())
    return below->second * static_cast<double>(bytes) / static_cast<double>(below->first);
  const double part = std::log(static_cast<double>(bytes) / static_cast<double>(below->first)) /
                      std::log(static_cast<double>(above->first) / static_cast<double>(below->first));
  return std::exp(std::log(below->second) * (1 - part) + std::log(above->second) * part);
}

}  // namespace

std::vector<Algorithm> candidates(Collective operation, const Nodes& nodes, bool at_once,
                                  const Fabric& fabric) {
  const int n = static_cast<int>(nodes.size());
  constexpr Pattern kAll[] = {Pattern::kRing, Pattern::kHalving, Pattern::kDirect, Pattern::kTree,
                              Pattern::kExchange};
  std::vector<Algorithm> tried;
  for (const Pattern pattern : kAll) tried.push_back({{{n, pattern}}});
  tried.push_back({{{n, Pattern::kRing}}, false, true});
  const int inside = members_per_node(nodes);
  if (inside > 1 && inside < n) {
    for (const Pattern near : kAll)
      for (const Pattern far : kAll) tried.push_back({{{inside, near}, {n / inside, far}}});
  }
  int64_t product = std::max(inside, 1);
  Algorithm torus;
  if (inside > 1) torus.dimensions.push_back({inside, Pattern::kRing});
  for (const int side : fabric.torus) {
    torus.dimensions.push_back({side, Pattern::kRing});
    product *= side;
  }
  if (!fabric.torus.empty() && product == n) {
    for (const bool rotated : {false, true})
      for (const bool both : {false, true}) tried.push_back({torus.dimensions, rotated, both});
  }
  std::erase_if(tried, [&](const Algorithm& algorithm) {
    const bool many = std::ranges::any_of(algorithm.dimensions, [](const Dimension& dimension) {
      return dimension.size > kFewMembers &&
             (dimension.pattern == Pattern::kDirect || dimension.pattern == Pattern::kExchange);
    });
    const bool only_one = at_once || operation == Collective::kAllToAll;
    return !applies(algorithm, operation, n, at_once) || (many && !only_one);
  });
  return tried;
}

CollectiveChoice choose_collective(const CollectiveCall& call, int64_t element_bytes, const Nodes& nodes,
                                   bool at_once, const Fabric& fabric) {
  const int n = static_cast<int>(nodes.size());
  const std::vector<Algorithm> tried = candidates(call.operation, nodes, at_once, fabric);
  INGOT_CHECK(!tried.empty(), "no algorithm for {} over {} members", name_of(call.operation), n);
  CollectiveChoice best;
  const auto consider = [&](const Algorithm& algorithm, int64_t piece) {
    const double seconds = collective_seconds(call, element_bytes, algorithm, piece, nodes, fabric);
    if (best.piece_bytes == 0 || seconds < best.seconds) best = {algorithm, piece, seconds};
  };
  const int64_t block = largest_block(call, element_bytes, n);
  const int64_t usual = std::max(kUsualPiece, block / kMostPieces);
  if (tried.size() == 1 && call.operation != Collective::kBroadcast) {
    best = {tried.front(), usual, 0};
    if (n <= kFewMembers) consider(tried.front(), usual);
    return best;
  }
  for (const Algorithm& algorithm : tried) consider(algorithm, usual);
  for (const int64_t piece : kPieces)
    if (piece != usual && piece >= block / kMostPieces && piece / 2 < block)
      consider(Algorithm(best.algorithm), piece);
  const auto library = library_seconds(fabric, call.operation, call.elements * element_bytes);
  if (library && *library < best.seconds) {
    best.library = true;
    best.seconds = *library;
  }
  return best;
}

int64_t bucket_bytes(int64_t gradient_bytes, double compute_seconds, const Nodes& nodes,
                     const Fabric& fabric) {
  constexpr int64_t kSmallest = 1 << 20, kElement = 4;
  if (nodes.size() < 2) return gradient_bytes;
  int64_t best = gradient_bytes;
  double best_end = 0;
  for (int64_t size = kSmallest;; size *= 2) {
    const int64_t bucket = std::min(size, gradient_bytes);
    const double each =
        choose_collective({Collective::kAllReduce, bucket / kElement}, kElement, nodes, false, fabric)
            .seconds;
    // The i-th is ready when its part of the backward is; one is reduced after another.
    const double count = std::ceil(static_cast<double>(gradient_bytes) / static_cast<double>(bucket));
    double end = 0;
    for (double i = 1; i <= count; ++i) end = std::max(end, compute_seconds * i / count) + each;
    constexpr double kWorth = 0.98;  // smaller ones must gain: each has costs that are not modelled
    if (best_end == 0 || end <= best_end / kWorth) {
      if (best_end == 0 || end < best_end) best_end = end;
      best = bucket;
    }
    if (bucket == gradient_bytes) return best;
  }
}

}  // namespace ingot::cost
