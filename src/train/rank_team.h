#pragma once
// The ranks of this process, as threads over the local transport: one rank with all threads, or several that
// share them. A cluster's process holds one rank of its world in the same way.

#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"
#include "runtime/runtime.h"

namespace ingot::train {

// What one rank owns. Touched only by its own thread while each() runs.
struct Rank {
  int rank = 0;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<comm::Transport> transport;
  std::unique_ptr<ThreadPool> pool;
  runtime::State state;
};

class RankTeam {
 public:
  // `threads` in all, shared out evenly, at least one each. Errors: the backend cannot be had.
  static Result<std::unique_ptr<RankTeam>> create(int ranks, int threads, std::string_view backend);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  // Threads of each rank's pool in such a team, at most: what programs are compiled for.
  static int threads_of(int ranks, int threads);

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int index) { return *ranks_[static_cast<size_t>(index)]; }

  // Runs `body` for every rank at the same time, rank 0 on the calling thread; returns the first error by
  // rank.
  Result<void> each(const std::function<Result<void>(Rank&)>& body);

 private:
  RankTeam() = default;
  void serve(int index);
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace ingot::train
