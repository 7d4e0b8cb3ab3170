#pragma once
// Who is stuck: from what is known of every rank at one moment, the rank that the others wait for, or the two
// nodes that do not reach each other, in one sentence. Pure; nothing here reads a clock or a process.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "comm/progress_page.h"

namespace ingot::launch {

// One rank as its agent sees it. Ages are of the moment at which the view was made; it goes from agent to
// agent as it is, between machines of one kind.
struct RankView {
  int32_t rank = -1;  // -1: nothing is known of it yet
  int32_t local_rank = 0;
  std::array<char, 64> node{};
  std::array<char, 64> words{};  // what it waits in: "all_reduce #88 (gradients of layer 12, 50 MiB)"
  comm::RankState state = comm::RankState::kStarting;
  char process = 0;  // as /proc says it: 'T' is stopped
  bool ended = false;
  int32_t pid = 0;
  int64_t step = 0;
  int32_t instruction = -1;
  int32_t peer = -1;  // rank that it waits for
  uint64_t sequence = 0;
  int64_t state_age_ns = 0;       // since it came to what it does
  int64_t heartbeat_age_ns = -1;  // -1: it has shown none
  int64_t limit_ns = 0;           // how long a wait may last; 0: as long as it takes
  int64_t patience_ns = 0;        // where less: of a wait for a rank that is stopped or dead; 0: as long
  int64_t report_age_ns = 0;      // since its agent was heard
};

// What a report that is older than this says of a node: it is not heard.
inline constexpr int64_t kSilentNs = 3'500'000'000;

struct Stuck {
  int rank = -1;      // that is waited for; -1: no rank alone, see the sentence
  double waited = 0;  // by the rank that waits longest, in limits
  std::string sentence;
};

// Nothing while no rank has waited for `limits` of its limit. `own_node` is where the views are gathered.
std::optional<Stuck> find_stuck(std::span<const RankView> ranks, double limits, const std::string& own_node);

// "rank 13 (node-2, local 5)"
std::string name_of(const RankView& view);

}  // namespace ingot::launch
