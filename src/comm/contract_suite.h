#pragma once
// What every transport must do, as a suite of tests. A transport's own test instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Local, TransportContract, ::testing::Values(WorldFactory{"local",
//   make_local_world}));
//
// The factory makes all ranks of a world in this process, one Transport each; every rank runs on a thread of
// its own.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm.h"

namespace ingot::comm {

struct WorldFactory {
  std::string name;
  std::function<std::vector<std::unique_ptr<Transport>>(int ranks)> make;
  // All members of a group learn of an error at once, and it names all that have not come. Else each member
  // finds it by itself and names whom it waits for.
  bool errors_are_shared = true;
};
inline void PrintTo(const WorldFactory& factory, std::ostream* out) { *out << factory.name; }

class TransportContract : public ::testing::TestWithParam<WorldFactory> {
 protected:
  // Runs `body(transport)` on one thread per rank and joins them.
  void run(int ranks, const std::function<void(Transport&)>& body) {
    auto world = GetParam().make(ranks);
    ASSERT_EQ(static_cast<int>(world.size()), ranks);
    std::vector<std::thread> threads;
    for (auto& transport : world) threads.emplace_back([&body, &transport] { body(*transport); });
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace ingot::comm
