#pragma once
// What every implementation of Messages must do, as a suite of tests: one that is instantiated for ranks as
// threads of this process (ucx/ucx_test.cc), and for ranks that are processes (process_ranks.h).

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "comm/messages.h"

namespace ingot::comm {

struct MessagesFactory {
  std::string name;
  // Makes a world of `ranks`, and runs `body` for each of them that is in this process, on a thread of its
  // own.
  std::function<void(int ranks, const std::function<void(Messages&)>& body)> run;
  bool events_end_sleep = true;  // false: it looks by itself every 0.2 ms
};
inline void PrintTo(const MessagesFactory& factory, std::ostream* out) { *out << factory.name; }

class MessagesContract : public ::testing::TestWithParam<MessagesFactory> {
 protected:
  void run(int ranks, const std::function<void(Messages&)>& body) { GetParam().run(ranks, body); }
};

}  // namespace ingot::comm
