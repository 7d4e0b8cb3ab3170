#pragma once
// One process as one rank of a world: its place among the others and what it shows to the agent that watches
// it. A rank that another launcher started makes an agent of its own.

#include <optional>
#include <string>

#include "launch/agent.h"
#include "launch/board.h"
#include "launch/environment.h"

namespace ingot::launch {

// What a rank shows. Borrowed by the transport and the loop of this process.
struct RankSide {
  Place place;
  Board board;
  int slot = 0;  // on the board

  comm::ProgressPage& page() const { return board.page(slot); }
  void set_run_dir(const std::string& path) const { board.note(slot).set_run_dir(path); }
  void set_patience(double seconds) const {
    board.note(slot).patience_ns.store(static_cast<int64_t>(seconds * 1e9));
  }
};

// Makes this process a rank of `place`, which is not alone. Where no agent watches it yet, it becomes a
// parent and its child: the child, in a process group of its own and bound to its share of the node where the
// launcher bound it to nothing, gets its side; the parent watches it and gets what came of it, once all is
// over. To be called while there is one thread.
struct Rank {
  std::optional<RankSide> side;       // in the rank
  std::optional<AgentResult> result;  // in its agent
};
Result<Rank> become_rank(const Place& place, const Environment& environment, const AgentVoice& voice);

// Starts all ranks of a world on this node, each with the same words, and watches them to their end.
struct LocalStart {
  int ranks = 1;
  std::vector<std::string> words;  // of which the first is the path of a program that calls become_rank
  std::string log_folder;          // of "rank-0003.log"; rank 0 speaks where this process does
  std::vector<std::string> environment;
};
Result<AgentResult> run_local(const LocalStart& start, const AgentVoice& voice);

std::string log_path(const std::string& folder, int rank);  // "<folder>/rank-0003.log"

}  // namespace ingot::launch
