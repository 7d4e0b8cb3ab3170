#pragma once
// A collective as one object: the steps of one member, with what each waits for. Made here for any algorithm,
// run by comm's engine over messages, counted and costed by collective_cost.h.
//
// An algorithm is a composition over dimensions: member i of n = d0 * d1 * ... has the digits of i in that
// mixed radix (the first the fastest), and along each dimension a pattern moves the data between the members
// that differ in that digit alone. One dimension is the flat ring, tree, ...; (ranks of a node) x (nodes) is
// the hierarchical algorithm; the sides of a torus are the torus one. To add a pattern: a name in kPatterns,
// a case in each table of collective_schedule.cc that it can serve, and where it applies.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::cost {

enum class Collective : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast, kBarrier };
const char* name_of(Collective operation);  // "all_reduce"

// What is asked of n members. Block i of n is member i's.
struct CollectiveCall {
  Collective operation = Collective::kAllReduce;
  int64_t elements = 0;  // of the whole: all_reduce, broadcast: the tensor; n equal blocks else
  int root = 0;          // broadcast
  // all_to_all: elements for, and from, each member in index order, `elements` unused.
  std::span<const int64_t> sent = {}, received = {};
};

enum class Pattern : uint8_t {
  kRing,      // d - 1 rounds of one block to the next member
  kHalving,   // log2 d rounds with the member whose digit differs in one bit; d a power of 2
  kDirect,    // one round: each block straight to its owner; each sum is made at once, in index order
  kTree,      // up and down a binomial tree with all of the data
  kExchange,  // one round: everybody sends all of its data to everybody, who adds in index order
};
const char* name_of(Pattern pattern);  // "ring"

struct Dimension {
  int size = 1;
  Pattern pattern = Pattern::kRing;
  bool operator==(const Dimension&) const = default;
};

struct Algorithm {
  std::vector<Dimension> dimensions;  // sizes multiply to the members
  // The data in parts that go at once: one per order of the dimensions (a torus uses all its links), times
  // two where rings also run backwards.
  bool rotated = false, both_ways = false;
  bool operator==(const Algorithm&) const = default;
};
std::string name_of(const Algorithm& algorithm);  // "ring", "ring 2 x tree 8", "rotated ring 4 x ring 4"

// Whether the algorithm can do this: every pattern can serve its dimension, and the sizes fit. A sum that
// must be rounded once (16-bit types) needs one that adds all parts at once: `at_once`.
bool applies(const Algorithm& algorithm, Collective operation, int members, bool at_once = false);

enum class Area : uint8_t { kIn, kOut, kScratch };
inline constexpr int kAreas = 3;
struct Place {
  Area area = Area::kIn;
  int64_t offset = 0;  // elements
};

struct Step {
  enum class Kind : uint8_t { kSend, kReceive, kAdd, kCopy };
  Kind kind = Kind::kCopy;
  int peer = -1;  // kSend, kReceive: index of the member
  uint32_t message =
      0;  // kSend, kReceive: how many went to (came from) this peer before: both sides count alike
  int64_t elements = 0;
  Place to;  // all but kSend
  uint32_t first_source = 0,
           sources = 0;                // in Schedule::sources: kSend, kCopy one; kAdd the sum in this order
  uint32_t first_next = 0, nexts = 0;  // in Schedule::next: steps that wait for this one
  uint32_t waits = 0;                  // how many steps it waits for
};

// Of one member. Steps stand in an order in which they can be done. Areas: kIn is the operand (of all_gather
// and all_to_all the own block, own rows), kOut the result, kScratch the engine's. kIn is only read; it may
// be the same memory as kOut for all_reduce and broadcast, and lie at its own block of kOut for all_gather.
struct Schedule {
  std::vector<Step> steps;
  std::vector<Place> sources;
  std::vector<uint32_t> next;
  int64_t scratch_elements = 0;
  int64_t sent_elements() const;
};

// `piece`: the most elements of one message; blocks are cut into pieces that follow each other through the
// rounds. Precondition: applies().
Schedule make_schedule(const CollectiveCall& call, int members, int member, const Algorithm& algorithm,
                       int64_t piece);

}  // namespace ingot::cost
