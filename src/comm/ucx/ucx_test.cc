#include "comm/ucx/ucx.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "comm/contract_suite.h"
#include "comm/messages_plugin.h"
#include "comm/messages_suite.h"

namespace ingot::comm {
namespace {

std::string meeting() {
  return (std::filesystem::temp_directory_path() / ("ingot-ucx-" + std::to_string(getpid()))).string();
}

// Ranks as threads of this process, each with a worker of its own. A side that a body does not close is left
// open.
void run_threads(int ranks, const std::function<void(Messages&)>& body) {
  auto table = ucx::open();
  if (!table) GTEST_SKIP() << table.error().message;
  const std::string address = meeting();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto messages = start_messages(**table, rank, ranks, address, std::chrono::seconds(20));
      ASSERT_TRUE(messages) << messages.error().message;
      body(**messages);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Ucx, MessagesContract, ::testing::Values(MessagesFactory{"ucx", run_threads}),
                         [](const auto& factory) { return factory.param.name; });

std::vector<std::unique_ptr<Transport>> make_world(int ranks) {
  std::vector<std::unique_ptr<Transport>> world(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&world, rank, ranks] {
      auto transport = join_world("ucx", rank, ranks, meeting());
      INGOT_CHECK(transport.has_value(), "{}", transport.error().message);
      world[static_cast<size_t>(rank)] = std::move(*transport);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return world;
}

INSTANTIATE_TEST_SUITE_P(Ucx, TransportContract, ::testing::Values(WorldFactory{"ucx", make_world, false}),
                         [](const auto& factory) { return factory.param.name; });

}  // namespace
}  // namespace ingot::comm
