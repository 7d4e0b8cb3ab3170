#pragma once
// The ranks of this process: all of a world, as threads over the local transport (one rank with all threads,
// or several that share them), or the one rank that this process is in a world of processes.

#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"
#include "runtime/runtime.h"

namespace ingot::train {

// What one rank owns. Touched only by its own thread while each() runs.
struct Rank {
  int rank = 0;   // in the world
  int index = 0;  // among the ranks of this process
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<comm::Transport> transport;
  std::unique_ptr<comm::Communicator> control;  // of the whole world: what steps do not carry
  std::unique_ptr<ThreadPool> pool;
  runtime::State state;
};

class RankTeam {
 public:
  // A whole world. `threads` in all, shared out evenly, at least one each. Errors: the backend cannot be had.
  static Result<std::unique_ptr<RankTeam>> create(int ranks, int threads, std::string_view backend);
  // One rank of a world of processes, with all `threads`. All ranks of the world create theirs.
  static Result<std::unique_ptr<RankTeam>> join(std::unique_ptr<comm::Transport> transport, int threads,
                                                std::string_view backend);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  // Threads of each rank's pool in such a team, at most: what programs are compiled for.
  static int threads_of(int ranks, int threads);

  int size() const { return static_cast<int>(ranks_.size()); }  // ranks of this process
  int world() const { return ranks_[0]->transport->world(); }
  bool whole() const { return size() == world(); }
  Rank& rank(int index) { return *ranks_[static_cast<size_t>(index)]; }

  // Runs `body` for every rank here at the same time, the first on the calling thread; returns the first
  // error by rank.
  Result<void> each(const std::function<Result<void>(Rank&)>& body);

 private:
  RankTeam() = default;
  static Result<std::unique_ptr<RankTeam>> make(std::vector<std::unique_ptr<comm::Transport>> transports,
                                                int threads, std::string_view backend);
  void serve(int index);
  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace ingot::train
