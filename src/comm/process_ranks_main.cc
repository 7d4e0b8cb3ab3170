// The program of process_ranks.h.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "comm/contract_suite.h"
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

// Worlds that a test broke were never closed, so the plug-in does not end MPI; but here every process still
// is, and mpirun expects it.
void end_mpi() {
  void* library = dlopen("libmpi.so.40", RTLD_NOLOAD | RTLD_NOW);
  ASSERT_NE(library, nullptr);
  reinterpret_cast<int (*)()>(dlsym(library, "MPI_Finalize"))();
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

std::vector<std::unique_ptr<Transport>> make_here(int ranks) {
  INGOT_CHECK(ranks <= own.world, "a test wants {} ranks of {}", ranks, own.world);
  const std::string address = next_address();
  std::vector<std::unique_ptr<Transport>> here;
  if (own.rank >= ranks) return here;
  auto transport = join_world(own.transport, own.rank, ranks, address);
  INGOT_CHECK(transport.has_value(), "{}", transport.error().message);
  here.push_back(std::move(*transport));
  return here;
}

INSTANTIATE_TEST_SUITE_P(Processes, TransportContract,
                         ::testing::Values(WorldFactory{own.transport, make_here, false}));

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
  if (own.transport != "mpi") return RUN_ALL_TESTS();
  meet_once();
  const int status = RUN_ALL_TESTS();
  end_mpi();
  return status;
}
