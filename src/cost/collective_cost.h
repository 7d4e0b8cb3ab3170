#pragma once
// What a collective costs on a fabric, and which algorithm should run it. The time of a schedule comes from
// playing it message by message; formulas of theory are tests of that (planner notes, section 5).

#include <optional>
#include <string>

#include "base/result.h"
#include "cost/collective_schedule.h"
#include "spec/spec.h"

namespace ingot::cost {

// One direction; classes by name: "node" between ranks of one node, "network" between nodes.
struct Link {
  double latency = 0;    // seconds until a small message is there
  double bandwidth = 1;  // bytes per second. Of "node" each receiver's own; of "network" a node's, shared
  bool operator==(const Link&) const = default;
};

// A collective of the transport's own library, measured: one more candidate.
struct LibraryTime {
  Collective operation = Collective::kAllReduce;
  int64_t bytes = 0;  // of the operand
  double seconds = 0;
  bool operator==(const LibraryTime&) const = default;
};

// What messages and sums cost. The defaults are those of a small machine with shared memory and ten-gigabit
// Ethernet; measured by `ingot bench --comm`, declared by [cluster].
struct Fabric {
  Link node{2e-6, 8e9};
  Link network{20e-6, 1.2e9};
  // Bytes of result per second, of one rank: a received piece that is in cache onto an operand from memory.
  double sum_bandwidth = 8e9;
  double message_seconds = 0.5e-6;  // of a core, for each message at each end
  double switch_seconds = 20e-6;    // until another rank of the same core gets its turn
  int cores_per_node = 0;           // for ranks; 0: one each
  std::vector<int> torus;           // sides, fastest first, where nodes are joined so
  std::vector<LibraryTime> library;
  bool operator==(const Fabric&) const = default;
};

// What [cluster] says replaces what `fabric` holds. Errors: a class of links that is neither node nor
// network.
Result<Fabric> declared_fabric(const spec::ClusterSpec& cluster, Fabric fabric);
// The profile of a machine, docs/formats/fabric.md. Errors: what is wrong with the text.
std::string to_json(const Fabric& fabric);
Result<Fabric> fabric_from_json(const std::string& text);

// Nodes of the members of a group, by index in it: any numbers, equal for members that share one.
using Nodes = std::vector<int>;

// Seconds from the common start until the last member is done. Where nodes are alike and the algorithm treats
// them alike, the members of one are played and stand for the others (within 2 %), unless `all` are wanted.
// Elements are of `element_bytes`; precondition: applies().
double collective_seconds(const CollectiveCall& call, int64_t element_bytes, const Algorithm& algorithm,
                          int64_t piece_bytes, const Nodes& nodes, const Fabric& fabric, bool all = false);

struct CollectiveChoice {
  Algorithm algorithm;
  int64_t piece_bytes = 0;  // of one message, at most
  double seconds = 0;       // predicted
  bool library = false;     // the transport's own is faster; `algorithm` is the best of ours
  bool operator==(const CollectiveChoice&) const = default;
};

// The algorithms worth trying on these nodes.
std::vector<Algorithm> candidates(Collective operation, const Nodes& nodes, bool at_once,
                                  const Fabric& fabric);

// The fastest of them. The same on every member, given the same arguments. `at_once`: every sum must be made
// of all its parts in one step (types that would round in between).
CollectiveChoice choose_collective(const CollectiveCall& call, int64_t element_bytes, const Nodes& nodes,
                                   bool at_once, const Fabric& fabric);

// Size of gradient buckets with which the reduction of `gradient_bytes` over the members ends first, when a
// backward of `compute_seconds` makes them ready one after another.
int64_t bucket_bytes(int64_t gradient_bytes, double compute_seconds, const Nodes& nodes,
                     const Fabric& fabric);

}  // namespace ingot::cost
