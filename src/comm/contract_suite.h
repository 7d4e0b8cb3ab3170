#pragma once
// What every transport must do, as a suite of tests. A transport's own test instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Local, TransportContract, ::testing::Values(WorldFactory{"local",
//   make_local_world}));
//
// The factory makes the ranks of a world that are in this process, one Transport each: all of them, or the
// one that this process is (process_ranks.h). Every rank runs on a thread of its own.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
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
  // Runs `body(transport)` on one thread per rank that is here, and leaves the world; `broken`: the body
  // leaves it with an error or in the middle of a call.
  void run(int ranks, const std::function<void(Transport&)>& body, bool broken = false) {
    auto world = GetParam().make(ranks);
    std::vector<std::thread> threads;
    for (auto& transport : world) {
      threads.emplace_back([&body, &transport, broken] {
        body(*transport);
        if (broken) return;
        auto left = transport->leave({});
        EXPECT_TRUE(left) << left.error().message;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // What the ranks that are here are told, by rank.
  class Told {
   public:
    void add(int rank, const std::string& text) {
      const std::lock_guard lock(mutex_);
      texts_.emplace(rank, text);
    }
    const std::multimap<int, std::string>& texts() const { return texts_; }

   private:
    std::mutex mutex_;
    std::multimap<int, std::string> texts_;
  };
};

}  // namespace ingot::comm
