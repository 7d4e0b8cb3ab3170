#pragma once
// The world of processes that a training command may be one rank of. Alone, every function does what it would
// for a world of one: callers ask for no difference. Rank 0 decides what rests on a clock, a measurement or a
// look at the disk, and tells the others.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "launch/rank_side.h"
#include "train/agreement.h"

namespace ingot::cli {

class World {
 public:
  World() = default;  // alone
  // Errors: what the transport says of the ranks that do not come.
  static Result<World> join(launch::RankSide side, const std::string& transport);

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return size_ == 1; }
  bool first() const { return rank_ == 0; }
  const launch::RankSide* side() const { return side_ ? &*side_ : nullptr; }

  // What `work` gives on rank 0, on every rank; the others wait for it as long as it takes. Its error is that
  // of all, and said_by_first() is true from then on.
  Result<std::string> of_first(const std::function<Result<std::string>()>& work);
  // Calls `work` on rank 0, then on one rank of each other node, then on the others: for what the first one
  // makes and the others find made.
  Result<void> one_before_others(const std::function<Result<void>()>& work);
  // train::agree; the error is the same on all ranks, and said_by_first() is true from then on.
  Result<void> agree(const std::vector<train::Fact>& facts);
  bool said_by_first() const { return said_by_first_; }

  std::unique_ptr<comm::Transport> take_transport() { return std::move(transport_); }
  // Closes connections in order, where the transport was not taken.
  void leave();

 private:
  std::optional<launch::RankSide> side_;
  std::unique_ptr<comm::Transport> transport_;
  std::unique_ptr<comm::Communicator> all_;
  int rank_ = 0, size_ = 1;
  bool said_by_first_ = false;
};

}  // namespace ingot::cli
