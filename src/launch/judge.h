#pragma once
// From views of ranks and from how they ended: whether the world goes on, whom to warn of, and, when it
// cannot go on, the one cause and the exit code. Knows no process and no clock: the agent that gathers the
// views of all asks it.

#include <optional>
#include <string>
#include <vector>

#include "launch/process.h"
#include "launch/stuck.h"

namespace ingot::launch {

struct Verdict {
  int code = 4;          // to end with
  int rank = -1;         // that is to blame; -1: no rank alone
  bool waiting = false;  // it keeps others waiting; else it has ended
  std::string sentence;
};

class Judge {
 public:
  Judge(int world, std::string own_node);

  void see(const RankView& view, int64_t now_ns);
  void see_ended(int rank, const Ending& ending, int64_t now_ns);
  // The agent of these ranks has left without a word.
  void see_lost(const std::vector<int>& ranks, int64_t now_ns);

  // At a limit, once for each cause.
  std::optional<std::string> new_warning(int64_t now_ns);
  // Set once: the first rank that ended by a signal or an exit code of its own, the first agent that was
  // lost, or whoever keeps others waiting for two limits. Ranks that gave up (exit code 4) are blamed only
  // when within kPatienceNs nothing shows whom they waited for.
  const std::optional<Verdict>& verdict(int64_t now_ns);
  static constexpr int64_t kPatienceNs = 500'000'000;

  bool all_ended() const { return ended_ == static_cast<int>(ranks_.size()); }
  int code_of_all() const;  // once all have ended in order: 0, or 3 where one was interrupted

 private:
  struct Known {
    RankView view;
    int64_t heard_ns = 0;
    std::optional<Ending> ending;
  };
  std::vector<RankView> views(int64_t now_ns) const;
  std::string name(int rank) const;
  void blame_ending(int rank, const Ending& ending);

  std::vector<Known> ranks_;
  std::string own_node_;
  int ended_ = 0;
  int gave_up_ = -1;  // the first rank that did
  int64_t gave_up_ns_ = 0;
  std::optional<Verdict> verdict_;
  int warned_ = -2;  // rank of the last warning, -2: none is due
};

}  // namespace ingot::launch
