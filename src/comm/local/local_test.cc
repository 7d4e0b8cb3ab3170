#include <gtest/gtest.h>

#include "comm/contract_suite.h"

namespace ingot::comm {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Local, TransportContract,
    ::testing::Values(WorldFactory{"local", [](int ranks) { return make_local_world(ranks); }},
                      WorldFactory{"local_early", [](int ranks) { return make_local_world(ranks, true); }}),
    [](const auto& factory) { return factory.param.name; });

graph::Mesh two_ranks() { return graph::make_mesh(1, 2, 1, 1, 1, 2).value(); }

TensorView view_of(std::vector<float>& data) {
  return {data.data(), tensor::DType::kF32, tensor::Shape{std::ssize(data)}};
}

// What a receiver sees when the sender changes its tensor after both have posted and before it waits.
float seen_after_a_change(bool early, int64_t elements) {
  auto world = make_local_world(2, early);
  auto sender = world[0]->group(two_ranks(), graph::kTpMask).value();
  auto receiver = world[1]->group(two_ranks(), graph::kTpMask).value();
  std::vector<float> data(static_cast<size_t>(elements), 1), got(data.size(), -1);
  const Ticket receive = receiver->post_receive(view_of(got), 0, 3, {}).value();
  const Ticket send = sender->post_send(view_of(data), 1, 3, {}).value();
  data.back() = 2;
  EXPECT_TRUE(sender->wait(send, {}));
  data.back() = 3;
  EXPECT_TRUE(receiver->wait(receive, {}));
  return got.back();
}

TEST(LocalMessages, GoAsEarlyOrAsLateAsMayBe) {
  for (const int64_t elements : {1, 10000}) {
    EXPECT_EQ(seen_after_a_change(true, elements), 1) << elements;
    EXPECT_EQ(seen_after_a_change(false, elements), 2) << elements;
  }
}

TEST(LocalMessages, ASmallOneIsKeptForItsReceiverALargeOneIsNot) {
  auto world = make_local_world(2);
  auto sender = world[0]->group(two_ranks(), graph::kTpMask).value();
  auto receiver = world[1]->group(two_ranks(), graph::kTpMask).value();
  CallOptions quick;
  quick.timeout = std::chrono::milliseconds(50);
  std::vector<float> small = {1}, large(10000, 1), got = {-1};
  EXPECT_TRUE(sender->send(view_of(small), 1, 3, quick));
  small[0] = 2;
  EXPECT_TRUE(receiver->receive(view_of(got), 0, 3, quick));
  EXPECT_EQ(got[0], 1);
  const auto sent = sender->send(view_of(large), 1, 4, quick);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().message,
            "rank 1 has not received the message of tag 4 for 0.1 s; rank 0 waits in send (39.1 KiB)");
}

TEST(LocalMessages, WhoLeavesWithoutWaitingIsNamed) {
  auto world = make_local_world(2);
  auto sender = world[0]->group(two_ranks(), graph::kTpMask).value();
  auto receiver = world[1]->group(two_ranks(), graph::kTpMask).value();
  std::vector<float> small = {1}, large(10000, 1), got = {-1}, got_large(10000, -1);
  ASSERT_TRUE(sender->post_send(view_of(small), 1, 3, {}));
  ASSERT_TRUE(sender->post_send(view_of(large), 1, 4, {}));
  sender.reset();
  small[0] = 2;
  EXPECT_TRUE(receiver->receive(view_of(got), 0, 3, {}));
  EXPECT_EQ(got[0], 1) << "a small message was kept";
  const auto received = receiver->receive(view_of(got_large), 0, 4, {});
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().message, "rank 0 left before it had sent the message of tag 4");
}

}  // namespace
}  // namespace ingot::comm
