#pragma once
// Tests whose ranks are processes: comm_ranks_test runs the suites of messages and transports with
//
//   comm_ranks_test --start 8 ucx    starts itself once per rank (by mpirun for mpi), waits for all and fails
//                                    if one failed, one was left over, or something was left in /dev/shm
//
// Every process runs all tests in the same order. A test that needs fewer ranks than there are uses the
// first.

#include <string>

namespace ingot::comm {

struct OwnRank {
  std::string transport;
  int rank = 0, world = 1;
  std::string address;  // of the first meeting; later ones add their number to it
};

// Starts `world` copies of this program over the transport; the exit status for main().
int start_process_ranks(const std::string& transport, int world, const char* program, char** flags);

}  // namespace ingot::comm
