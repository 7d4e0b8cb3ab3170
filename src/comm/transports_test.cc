#include <gtest/gtest.h>

#include "comm/comm.h"

namespace ingot::comm {
namespace {

TEST(Transports, EveryRowCanBeHadOrSaysWhyNot) {
  for (const TransportRow& row : all_transports()) {
    if (!row.unavailable().empty()) continue;
    auto transport = join_world(row.name, 0, 1, "");
    ASSERT_TRUE(transport) << row.name << ": " << transport.error().message;
    EXPECT_EQ((*transport)->world(), 1) << row.name;
    EXPECT_EQ((*transport)->rank(), 0) << row.name;
  }
}

TEST(Transports, AnUnknownNameListsTheKnownOnes) {
  auto transport = join_world("carrier-pigeon", 0, 1, "");
  ASSERT_FALSE(transport);
  EXPECT_EQ(transport.error().code, ErrorCode::kNotFound);
  EXPECT_NE(transport.error().message.find("carrier-pigeon"), std::string::npos);
  EXPECT_NE(transport.error().message.find("local"), std::string::npos);
}

TEST(Transports, LocalRefusesToJoinOtherProcesses) {
  auto transport = join_world("local", 1, 4, "");
  ASSERT_FALSE(transport);
  EXPECT_NE(transport.error().message.find("rank 1 of 4"), std::string::npos) << transport.error().message;
}

TEST(Transports, ACallIsToldInOnePhrase) {
  CallOptions options;
  options.instruction = 88;
  options.what = "gradients of layer 12";
  EXPECT_EQ(describe_call("all_reduce", 50 << 20, options),
            "all_reduce #88 (gradients of layer 12, 50.0 MiB)");
  EXPECT_EQ(describe_call("barrier", 0, {}), "barrier");
}

}  // namespace
}  // namespace ingot::comm
