// The engine and its communicators, over messages inside this process.

#include "comm/scheduled.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "comm/contract_suite.h"
#include "comm/hub_for_tests.h"
#include "cost/collective_cost.h"

namespace ingot::comm {
namespace {

using tensor::DType;
using tensor::Shape;

WorldFactory factory(const char* name, const Hub::Behaviour& behaviour) {
  return {name, [behaviour](int ranks) { return make_hub_world(ranks, behaviour); }, false};
}

INSTANTIATE_TEST_SUITE_P(Scheduled, TransportContract,
                         ::testing::Values(factory("prompt", {}),
                                           factory("delayed", {.most_delay_ns = 300'000})),
                         [](const auto& chosen) { return chosen.param.name; });

TensorView view(std::vector<float>& data) { return {data.data(), DType::kF32, Shape{std::ssize(data)}}; }

std::unique_ptr<Communicator> everybody(Transport& transport) {
  std::vector<int> ranks;
  for (int rank = 0; rank < transport.world(); ++rank) ranks.push_back(rank);
  auto group = transport.group(ranks);
  INGOT_CHECK(group.has_value(), "no group");
  return std::move(*group);
}

void on_each(std::vector<std::unique_ptr<Transport>>& world, const std::function<void(Transport&)>& body) {
  std::vector<std::thread> threads;
  for (auto& transport : world) threads.emplace_back([&] { body(*transport); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Scheduled, EveryAlgorithmGivesTheSumOnRealMessages) {
  constexpr int kRanks = 4, kCount = 50'003;
  auto world = make_hub_world(kRanks, {.most_delay_ns = 50'000});
  const std::vector<cost::Algorithm> algorithms =
      cost::candidates(cost::Collective::kAllReduce, {0, 0, 1, 1}, false, {});
  EXPECT_GT(algorithms.size(), 10U);
  on_each(world, [&](Transport& transport) {
    auto group = everybody(transport);
    for (const cost::Algorithm& algorithm : algorithms) {
      const cost::CollectiveChoice choice{algorithm, 16 << 10};
      transport.prescribe(&choice);
      std::vector<float> data(kCount);
      for (int i = 0; i < kCount; ++i)
        data[static_cast<size_t>(i)] = static_cast<float>(transport.rank() + i % 91);
      ASSERT_TRUE(group->all_reduce(view(data), view(data), {})) << name_of(algorithm);
      for (int i = 0; i < kCount; ++i)
        ASSERT_EQ(data[static_cast<size_t>(i)], static_cast<float>(6 + kRanks * (i % 91)))
            << name_of(algorithm);
    }
  });
}

TEST(Scheduled, TheFabricOfRankZeroChoosesForAll) {
  auto world = make_hub_world(4, {.ranks_per_node = 2});
  std::array<std::string, 4> names;
  on_each(world, [&](Transport& transport) {
    cost::Fabric fabric;
    fabric.network = transport.rank() == 0 ? cost::Link{1e-6, 1e6} : cost::Link{1, 1e12};
    ASSERT_TRUE(transport.use_fabric(fabric, {}));
    EXPECT_EQ(std::vector<int>(transport.nodes().begin(), transport.nodes().end()),
              (std::vector<int>{0, 0, 2, 2}));
    auto group = everybody(transport);
    const cost::CollectiveChoice* const plan =
        group->planned({cost::Collective::kAllReduce, 1 << 20}, DType::kF32);
    ASSERT_NE(plan, nullptr);
    EXPECT_GT(plan->seconds, 1.0);
    names[static_cast<size_t>(transport.rank())] = name_of(plan->algorithm);
    std::vector<float> data(1 << 20, 1.0F);
    ASSERT_TRUE(group->all_reduce(view(data), view(data), {}));
    EXPECT_EQ(data[12345], 4.0F);
  });
  for (const std::string& name : names) EXPECT_EQ(name, names[0]);
  EXPECT_NE(names[0].find(" x "), std::string::npos) << names[0];  // not flat
}

TEST(Scheduled, PostedMessagesArriveThoughNobodyWaits) {
  auto world = make_hub_world(2, {});
  constexpr size_t kCount = 1 << 20;  // too large to be buffered
  std::vector<float> sent(kCount, 3.0F), got(kCount);
  std::atomic<bool> arrived{false};
  on_each(world, [&](Transport& transport) {
    auto group = everybody(transport);
    if (transport.rank() == 0) {
      auto ticket = group->post_send(view(sent), 1, 0, {});
      ASSERT_TRUE(ticket);
      while (!arrived) std::this_thread::yield();  // this thread calls nothing
      ASSERT_TRUE(group->wait(*ticket, {}));
    } else {
      ASSERT_TRUE(group->receive(view(got), 0, 0, {}));
      arrived = true;
    }
  });
  EXPECT_EQ(got, sent);
}

TEST(Scheduled, AnEarlyReceiveMayLastLongerThanTheLimit) {
  auto world = make_hub_world(2, {});
  on_each(world, [&](Transport& transport) {
    auto group = everybody(transport);
    CallOptions options;
    options.timeout = std::chrono::milliseconds(50);
    std::vector<float> data(4);
    if (transport.rank() == 0) {
      auto ticket = group->post_receive(view(data), 1, 0, options);
      ASSERT_TRUE(ticket);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // computes
      EXPECT_TRUE(group->wait(*ticket, options));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(210));
      ASSERT_TRUE(group->send(view(data), 0, 0, options));
    }
  });
}

TEST(Scheduled, ABrokenConnectionIsNamedWithTheCall) {
  auto world = make_hub_world(2, {.lost_rank = 1, .lost_after = 40});
  std::array<std::string, 2> messages;
  on_each(world, [&](Transport& transport) {
    auto group = everybody(transport);
    std::vector<float> data(1 << 16);
    CallOptions options;
    options.timeout = std::chrono::seconds(2);
    options.what = "gradients of layer 3";
    for (;;) {
      auto result = group->all_reduce(view(data), view(data), options);
      if (result) continue;
      EXPECT_EQ(result.error().code, ErrorCode::kFault);
      messages[static_cast<size_t>(transport.rank())] = result.error().message;
      break;
    }
  });
  const bool named = std::ranges::any_of(messages, [](const std::string& message) {
    return message.find("lost its connection to rank") != std::string::npos &&
           message.find("all_reduce (gradients of layer 3, 256 KiB): connection reset by the test") !=
               std::string::npos;
  });
  EXPECT_TRUE(named) << messages[0] << "\n" << messages[1];
}

TEST(Scheduled, PagesShowWhatARankWaitsForAndThatItLives) {
  std::vector<ProgressPage> pages(2);
  auto world = make_hub_world(2, {.pages = &pages});
  std::atomic<bool> go{false};
  on_each(world, [&](Transport& transport) {
    auto group = everybody(transport);
    std::vector<float> data(16);
    CallOptions options;
    options.instruction = 88;
    if (transport.rank() == 0) {
      ASSERT_TRUE(group->all_reduce(view(data), view(data), options));
      go = true;
      return;
    }
    const auto begin = monotonic_ns();
    while (pages[0].state != RankState::kWaiting || pages[0].peer != 1)
      ASSERT_LT(monotonic_ns() - begin, int64_t{5'000'000'000});
    EXPECT_EQ(pages[0].instruction, 88);
    EXPECT_GT(pages[0].sequence, 0U);
    const int64_t beat = pages[1].heartbeat_ns;  // this rank computes: its own thread shows that it lives
    while (pages[1].heartbeat_ns == beat) ASSERT_LT(monotonic_ns() - begin, int64_t{5'000'000'000});
    ASSERT_TRUE(group->all_reduce(view(data), view(data), options));
    while (!go) std::this_thread::yield();
    EXPECT_NE(pages[0].state, RankState::kWaiting);
  });
}

TEST(Scheduled, CollectivesOfTwoGroupsGoOnAtOnce) {
  auto world = make_hub_world(3, {.most_delay_ns = 100'000});
  on_each(world, [&](Transport& transport) {
    auto one = everybody(transport), two = everybody(transport);
    const auto work = [&](Communicator& group, float value) {
      std::vector<float> data(70'000);
      for (int round = 0; round < 20; ++round) {
        std::fill(data.begin(), data.end(), value);
        ASSERT_TRUE(group.all_reduce(view(data), view(data), {}));
        ASSERT_EQ(data[round], 3 * value);
      }
    };
    std::thread beside([&] { work(*two, 5); });  // as the thread of a stream does
    work(*one, 2);
    beside.join();
  });
}

TEST(Scheduled, RanksLeaveInOrder) {
  auto world = make_hub_world(3, {});
  on_each(world, [](Transport& transport) { EXPECT_TRUE(transport.leave({})); });
}

}  // namespace
}  // namespace ingot::comm
