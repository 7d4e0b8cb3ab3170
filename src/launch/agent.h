#pragma once
// Watches the ranks of one node, or the one rank that another launcher started, to their end: forwards
// signals, names the first death or whoever keeps the others waiting, ends the rest, and says the exit code.
// Agents of one world tell each other through that of rank 0 (watch.h). It reports; the ranks themselves
// leave when their limit is over, and an agent ends only what is left of a world that cannot go on.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/board.h"
#include "launch/judge.h"
#include "launch/process.h"

namespace ingot::launch {

// SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 of this process, taken by reading. To be made before ranks start, so
// that none is lost; processes started meanwhile take them as usual.
class AgentSignals {
 public:
  AgentSignals();
  ~AgentSignals();
  AgentSignals(const AgentSignals&) = delete;
  AgentSignals& operator=(const AgentSignals&) = delete;
  int descriptor() const { return descriptor_.get(); }
  int next();  // 0: none has come

 private:
  struct Mask;
  std::unique_ptr<Mask> before_;
  Descriptor descriptor_;
};

// How an agent speaks to the user: at once, since the launcher above it may end it the moment that others
// leave.
struct AgentVoice {
  std::function<void(const std::string&)> warn;
  // The world ends by a fault (exit code 4); `run_dir` as a rank said, empty where none did.
  std::function<void(const Verdict&, const std::string& run_dir)> fault;
};

struct AgentOptions {
  int world = 1;
  std::vector<int> ranks;  // in the world, by local rank
  std::string node;
  std::string watch_address;  // where agents meet; empty where all ranks are here
  AgentVoice voice;
};

struct AgentResult {
  int code = 0;
  int by_signal = 0;               // the agent was told to end at once: it should end by this signal
  std::optional<Verdict> verdict;  // why the world ended, where it did not in order
  bool told = false;               // the user was told, by this agent, by that of rank 0, or by rank 0 itself
};

// `processes` are the ranks, by local rank; all have ended when it returns. A first SIGINT or SIGTERM asks
// the ranks to stop and save, a second one ends them; SIGUSR1 and SIGUSR2 are passed on.
AgentResult watch_ranks(const AgentOptions& options, const Board& board, std::vector<Process> processes,
                        AgentSignals& signals);

}  // namespace ingot::launch
