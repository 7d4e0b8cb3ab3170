#pragma once
// Starting ranks on several nodes is the business of the engine that owns them: these are its command lines.

#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::launch {

struct MultiNode {
  int ranks = 1;
  std::vector<std::string> hosts;  // as mpirun takes them: "node-0:4"; empty: Slurm chooses
  int nodes = 0;                   // for srun; 0: as allocated
  int port = 29500;                // and the next one, on the first host
  bool as_root = false;
  std::vector<std::string> passed;  // variables that the ranks get, where they are set here: "INGOT_CACHE"
  std::vector<std::string> words;   // of a rank
};

// mpirun where hosts are named, else srun. Errors: a host that is none.
Result<std::vector<std::string>> engine_command(const MultiNode& start);

// Ranks that the hosts hold: "a:4,b:2" is 6, a host without a number holds one. Errors: what is no list of
// hosts.
Result<int> ranks_of(const std::vector<std::string>& hosts);

// As a shell takes it.
std::string in_a_line(const std::vector<std::string>& words);

}  // namespace ingot::launch
