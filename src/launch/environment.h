#pragma once
// Where a process stands in its world, as whoever started it says it in environment variables. The words of
// each launcher are a row of a table in environment.cc; to add a launcher, add a row.

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot::launch {

// The value of a variable, null where it is not set; tests give their own.
using Environment = std::function<const char*(const char* name)>;
Environment process_environment();

inline constexpr std::string_view kOwnLauncher = "ingot launch";

struct Place {
  std::string launcher;  // "Open MPI"; empty: started alone
  int rank = 0, world = 1;
  int local_rank = 0, local_world = 1;  // among the ranks of this node
  std::string node;                     // its name, for sentences
  // Where the ranks meet: "host:port", or a path with a '/' in it where all are on one node. Empty where the
  // launcher gives none. Those who watch the ranks meet at watch_address().
  std::string address;
  bool alone() const { return launcher.empty(); }
};

// INGOT_ADDRESS takes the place of the address that a launcher implies, INGOT_NODE that of the node's name.
// Errors, in one sentence with the variables and what to do: half of a launcher's variables, a value that is
// no number or out of range, two launchers that say different things where neither can be inside the other.
Result<Place> find_place(const Environment& environment);

// Of INGOT_NODE, Slurm's word, or the host's name.
std::string node_name(const Environment& environment);

// The next port, or the path with ".watch" behind it.
Result<std::string> watch_address(const std::string& address);

// The first name of a list as Slurm writes it: "gpu[07-09,12],login" is gpu07 and so on.
std::string first_host(const std::string& list);
// Tasks on a node, of a list as Slurm writes it: "2(x3),1" is 2, 2, 2, 1. 0 when the node is not in it.
int tasks_on_node(const std::string& list, int node);

}  // namespace ingot::launch
