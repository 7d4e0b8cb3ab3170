// The program of process_ranks.h.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "comm/messages_plugin.h"
#include "comm/messages_suite.h"
#include "comm/process_ranks.h"

namespace ingot::comm {
namespace {

OwnRank own;  // NOLINT: set once by main, before the suites are instantiated

// A world of all, made and closed: mpirun ends a job in which one process ends without MPI while others use
// it.
void meet_once() {
  auto table = open_messages_plugin("libingot-" + own.transport + ".so");
  if (!table) return;
  auto messages = start_messages(**table, own.rank, own.world, own.address, std::chrono::seconds(60));
  ASSERT_TRUE(messages) << messages.error().message;
  EXPECT_TRUE((*messages)->close());
}

// One meeting after the other, in the same order in every process.
std::string next_address() {
  static int meetings = 0;
  return own.address + "." + std::to_string(meetings++);
}

void run_here(int ranks, const std::function<void(Messages&)>& body) {
  ASSERT_LE(ranks, own.world);
  const std::string address = next_address();
  if (own.rank >= ranks) return;
  auto table = open_messages_plugin("libingot-" + own.transport + ".so");
  ASSERT_TRUE(table) << table.error().message;
  auto messages = start_messages(**table, own.rank, ranks, address, std::chrono::seconds(60));
  ASSERT_TRUE(messages) << messages.error().message;
  body(**messages);
}

INSTANTIATE_TEST_SUITE_P(Processes, MessagesContract,
                         ::testing::Values(MessagesFactory{own.transport, run_here, own.transport != "mpi"}));

int number(const char* text, const char* variable) {
  if (std::strcmp(text, "-") == 0) text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : 0;
}

}  // namespace
}  // namespace ingot::comm

int main(int argc, char** argv) {
  using namespace ingot::comm;
  if (argc >= 4 && std::strcmp(argv[1], "--start") == 0)
    return start_process_ranks(argv[3], std::atoi(argv[2]), argv[0], argv + 4);
  if (argc >= 6 && std::strcmp(argv[1], "--rank") == 0)
    own = {argv[2], number(argv[3], "OMPI_COMM_WORLD_RANK"), number(argv[4], "OMPI_COMM_WORLD_SIZE"),
           argv[5]};
  testing::InitGoogleTest(&argc, argv);
  if (own.transport == "mpi") meet_once();
  return RUN_ALL_TESTS();
}
