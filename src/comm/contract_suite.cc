#include "comm/contract_suite.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <vector>

#include "base/clock.h"
#include "tensor/half.h"

namespace ingot::comm {
namespace {

using graph::Axis;
using tensor::DType;
using tensor::Shape;

graph::Mesh mesh_of(int tp, int dp) {
  graph::Mesh mesh;
  mesh.sizes[static_cast<size_t>(Axis::kKv)] = tp;
  mesh.sizes[static_cast<size_t>(Axis::kReplica)] = dp;
  return mesh;
}

template <class T>
TensorView view(std::vector<T>& data, DType dtype, Shape shape) {
  return {data.data(), dtype, shape};
}

std::unique_ptr<Communicator> make_group(Transport& transport, const graph::Mesh& mesh,
                                         graph::AxisMask axes) {
  auto group = transport.group(mesh, axes);
  INGOT_CHECK(group.has_value(), "{}", group.error().message);
  return std::move(*group);
}

CallOptions quickly(int instruction = -1, const char* what = "") {
  CallOptions options;
  options.timeout = std::chrono::milliseconds(200);
  options.instruction = instruction;
  options.what = what;
  return options;
}

TEST_P(TransportContract, GroupsFollowTheMesh) {
  const graph::Mesh mesh = mesh_of(2, 3);
  run(6, [&](Transport& transport) {
    EXPECT_EQ(transport.world(), 6);
    for (const graph::AxisMask axes : {graph::kTpMask, graph::kDpMask, graph::kWorldMask}) {
      auto group = make_group(transport, mesh, axes);
      EXPECT_EQ(group->size(), mesh.group_size(axes));
      EXPECT_EQ(group->index(), mesh.index(transport.rank(), axes));
    }
  });
}

TEST_P(TransportContract, AMeshOfAnotherSizeIsRefused) {
  run(2, [&](Transport& transport) {
    auto group = transport.group(mesh_of(4, 1), graph::kTpMask);
    ASSERT_FALSE(group);
    EXPECT_NE(group.error().message.find('4'), std::string::npos);
  });
}

TEST_P(TransportContract, AllReduceAddsInIndexOrderWithTheSameBitsEverywhere) {
  constexpr int kRanks = 5, kCount = 37;  // a count that the members cannot share evenly
  const auto value = [](int rank, int i) {
    return 1.0 / (1 + rank * 7 + i) + 1e15 * (rank % 2 == 0 ? 1 : -1);
  };
  for (const bool in_place : {false, true}) {
    run(kRanks, [&](Transport& transport) {
      auto group = make_group(transport, mesh_of(kRanks, 1), graph::kTpMask);
      std::vector<double> in(kCount), out(kCount, -1);
      for (int i = 0; i < kCount; ++i) in[static_cast<size_t>(i)] = value(transport.rank(), i);
      const TensorView to = in_place ? view(in, DType::kF64, {kCount}) : view(out, DType::kF64, {kCount});
      ASSERT_TRUE(group->all_reduce(view(in, DType::kF64, {kCount}), to, {}));
      for (int i = 0; i < kCount; ++i) {
        double expected = value(0, i);
        for (int rank = 1; rank < kRanks; ++rank) expected += value(rank, i);
        EXPECT_EQ(to.as<double>()[i], expected) << i;
      }
    });
  }
}

TEST_P(TransportContract, SixteenBitSumsAddInFloat) {
  run(3, [&](Transport& transport) {
    auto group = make_group(transport, mesh_of(3, 1), graph::kTpMask);
    std::vector<uint16_t> data = {tensor::bf16_of_float(transport.rank() == 0 ? 256.0F : 0.75F)};
    ASSERT_TRUE(group->all_reduce(view(data, DType::kBF16, {1}), view(data, DType::kBF16, {1}), {}));
    EXPECT_EQ(tensor::float_of_bf16(data[0]), 258.0F);
    data = {tensor::f16_of_float(transport.rank() == 0 ? 2048.0F : 0.75F)};
    ASSERT_TRUE(group->all_reduce(view(data, DType::kF16, {1}), view(data, DType::kF16, {1}), {}));
    EXPECT_EQ(tensor::float_of_f16(data[0]), 2050.0F);
  });
}

TEST_P(TransportContract, GatherAndScatterCutAnyDimension) {
  constexpr int kRanks = 3;
  run(kRanks, [&](Transport& transport) {
    auto group = make_group(transport, mesh_of(1, kRanks), graph::kDpMask);
    for (int dim = 0; dim < 3; ++dim) {
      Shape part{2, 1, 5};
      const Shape whole = part.with(dim, part[dim] * kRanks);
      std::vector<float> own(10), joined(30), sum(10);
      std::iota(own.begin(), own.end(), static_cast<float>(100 * transport.rank()));
      ASSERT_TRUE(group->all_gather(view(own, DType::kF32, part), view(joined, DType::kF32, whole), dim, {}));
      for (int64_t i = 0; i < 30; ++i) {
        const int64_t index[3] = {i / (whole[1] * whole[2]), i / whole[2] % whole[1], i % whole[2]};
        const int64_t from = index[dim] / part[dim];
        int64_t local[3] = {index[0], index[1], index[2]};
        local[dim] %= part[dim];
        const int64_t offset = (local[0] * part[1] + local[1]) * part[2] + local[2];
        EXPECT_EQ(joined[static_cast<size_t>(i)], static_cast<float>(100 * from + offset)) << dim << " " << i;
      }
      // Scattering the sum of `ranks` equal copies gives the own part that many times.
      ASSERT_TRUE(
          group->reduce_scatter(view(joined, DType::kF32, whole), view(sum, DType::kF32, part), dim, {}));
      for (size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], kRanks * own[i]) << dim;
    }
  });
}

TEST_P(TransportContract, BroadcastSendAndReceive) {
  run(4, [&](Transport& transport) {
    auto group = make_group(transport, mesh_of(4, 1), graph::kWorldMask);
    const int rank = transport.rank();
    std::vector<int32_t> data = {rank, rank + 10};
    ASSERT_TRUE(group->broadcast(view(data, DType::kI32, {2}), 2, {}));
    EXPECT_EQ(data, (std::vector<int32_t>{2, 12}));
    // Everybody sends before anybody receives; two tags arrive in their own order.
    std::vector<int32_t> first = {rank}, second = {rank + 100}, got = {-1};
    const int next = (rank + 1) % 4, before = (rank + 3) % 4;
    ASSERT_TRUE(group->send(view(first, DType::kI32, {1}), next, 7, {}));
    ASSERT_TRUE(group->send(view(second, DType::kI32, {1}), next, 8, {}));
    first[0] = second[0] = -5;  // sent already
    ASSERT_TRUE(group->receive(view(got, DType::kI32, {1}), before, 8, {}));
    EXPECT_EQ(got[0], before + 100);
    ASSERT_TRUE(group->receive(view(got, DType::kI32, {1}), before, 7, {}));
    EXPECT_EQ(got[0], before);
    ASSERT_TRUE(group->barrier({}));
  });
}

TEST_P(TransportContract, PostedMessagesArriveInTheirOrderHoweverTheyAreAwaited) {
  run(2, [](Transport& transport) {
    auto group = make_group(transport, mesh_of(2, 1), graph::kTpMask);
    const std::vector<std::vector<int32_t>> sent = {{10}, {20}, {30}};
    std::vector<std::vector<int32_t>> data = sent;
    if (transport.rank() == 1) data = {{-1}, {-1}, {-1}};
    std::vector<Ticket> tickets;
    for (std::vector<int32_t>& value : data) {
      const TensorView message = view(value, DType::kI32, {1});
      auto ticket = transport.rank() == 0 ? group->post_send(message, 1, 5, {})
                                          : group->post_receive(message, 0, 5, {});
      ASSERT_TRUE(ticket);
      tickets.push_back(*ticket);
    }
    for (const size_t k : {2U, 0U, 1U}) ASSERT_TRUE(group->wait(tickets[k], {}));
    EXPECT_EQ(data, sent);
  });
}

TEST_P(TransportContract, GroupsOfTheSameRanksNeverMix) {
  const graph::Mesh mesh = mesh_of(2, 1);
  run(2, [&](Transport& transport) {
    auto one = make_group(transport, mesh, graph::kTpMask);
    auto two = make_group(transport, mesh, graph::kTpMask);
    std::vector<int32_t> a = {1}, b = {2};
    if (transport.rank() == 0) {
      ASSERT_TRUE(one->send(view(a, DType::kI32, {1}), 1, 0, {}));
      ASSERT_TRUE(two->send(view(b, DType::kI32, {1}), 1, 0, {}));
    } else {
      ASSERT_TRUE(two->receive(view(b, DType::kI32, {1}), 0, 0, {}));
      ASSERT_TRUE(one->receive(view(a, DType::kI32, {1}), 0, 0, {}));
      EXPECT_EQ(a[0], 1);
      EXPECT_EQ(b[0], 2);
    }
  });
}

TEST_P(TransportContract, TheMemberThatDoesNotComeIsNamed) {
  std::vector<std::string> messages(4);
  run(4, [&](Transport& transport) {
    auto group = make_group(transport, mesh_of(4, 1), graph::kTpMask);
    if (transport.rank() == 2) return;
    std::vector<float> data(1 << 18);
    const TensorView all = view(data, DType::kF32, {1 << 18});
    auto result = group->all_reduce(all, all, quickly(88, "gradients of layer 12"));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kFault);
    messages[static_cast<size_t>(transport.rank())] = result.error().message;
    // The group is broken: later calls fail at once with the same words.
    auto again = group->barrier({});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, result.error().message);
  });
  EXPECT_EQ(messages[0],
            "rank 2 has not arrived at all_reduce #88 (gradients of layer 12, 1.00 MiB) for 0.2 s; 3 of 4 "
            "wait there");
  EXPECT_EQ(messages[1], messages[0]);
  EXPECT_EQ(messages[3], messages[0]);
}

TEST_P(TransportContract, AMessageThatDoesNotComeIsNamed) {
  run(2, [&](Transport& transport) {
    if (transport.rank() == 1) return;
    auto group = make_group(transport, mesh_of(2, 1), graph::kTpMask);
    std::vector<float> data(4);
    auto result = group->receive(view(data, DType::kF32, {4}), 1, 3, quickly(17));
    ASSERT_FALSE(result);
    for (const char* part : {"rank 1 has not sent", "tag 3", "rank 0 waits in receive #17"})
      EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  });
}

// One rank calls `a`, the other `b`; both must fail and name both calls.
using Action = std::function<Result<void>(Communicator&)>;
std::vector<std::string> mismatched(const WorldFactory& factory, const Action& a, const Action& b) {
  auto world = factory.make(2);
  std::vector<std::string> messages(2);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = make_group(*world[rank], mesh_of(2, 1), graph::kTpMask);
      auto result = (rank == 0 ? a : b)(*group);
      if (!result) messages[rank] = result.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return messages;
}

TEST_P(TransportContract, AnotherOperationIsNamed) {
  std::vector<float> in(8), out(8), part(4);
  const auto messages = mismatched(
      GetParam(),
      [&](Communicator& group) {
        return group.all_reduce(view(in, DType::kF32, {8}), view(in, DType::kF32, {8}), quickly(5, "sums"));
      },
      [&](Communicator& group) {
        return group.all_gather(view(part, DType::kF32, {4}), view(out, DType::kF32, {8}), 0,
                                quickly(6, "table"));
      });
  for (const std::string& message : messages) {
    for (const char* piece : {"rank 0 calls all_reduce #5 (sums", "rank 1 calls all_gather #6 (table"})
      EXPECT_NE(message.find(piece), std::string::npos) << message;
  }
}

TEST_P(TransportContract, AnotherSizeAndASkippedCallAreNamed) {
  std::vector<float> small(4), large(8);
  auto messages = mismatched(
      GetParam(),
      [&](Communicator& group) {
        return group.all_reduce(view(small, DType::kF32, {4}), view(small, DType::kF32, {4}), quickly(5));
      },
      [&](Communicator& group) {
        return group.all_reduce(view(large, DType::kF32, {8}), view(large, DType::kF32, {8}), quickly(5));
      });
  for (const std::string& message : messages) {
    EXPECT_NE(message.find("16 B"), std::string::npos) << message;
    EXPECT_NE(message.find("32 B"), std::string::npos) << message;
  }
  // Rank 1 has made a call that rank 0 has not: told as a missing member, in words.
  messages = mismatched(
      GetParam(), [&](Communicator&) { return Result<void>(); },
      [&](Communicator& group) { return group.barrier(quickly(9)); });
  EXPECT_EQ(messages[1], "rank 0 has not arrived at barrier #9 for 0.2 s; 1 of 2 wait there");
}

TEST_P(TransportContract, AMessageOfAnotherSizeIsNamed) {
  std::vector<float> small(4), large(8);
  const auto messages = mismatched(
      GetParam(),
      [&](Communicator& group) { return group.send(view(small, DType::kF32, {4}), 1, 0, quickly(3)); },
      [&](Communicator& group) { return group.receive(view(large, DType::kF32, {8}), 0, 0, quickly(4)); });
  EXPECT_EQ(messages[0], "");
  for (const char* piece : {"receive #4", "send #3", "16 B", "32 B"})
    EXPECT_NE(messages[1].find(piece), std::string::npos) << messages[1];
}

TEST_P(TransportContract, ManyRanksOnFewCoresMakeProgress) {
  constexpr int kRanks = 8, kRounds = 300;
  const int64_t begin = monotonic_ns();
  run(kRanks, [&](Transport& transport) {
    const graph::Mesh mesh = mesh_of(2, 4);
    auto tp = make_group(transport, mesh, graph::kTpMask);
    auto dp = make_group(transport, mesh, graph::kDpMask);
    std::vector<double> data = {0};
    for (int round = 0; round < kRounds; ++round) {
      data[0] = round;
      ASSERT_TRUE(tp->all_reduce(view(data, DType::kF64, {1}), view(data, DType::kF64, {1}), {}));
      ASSERT_TRUE(dp->all_reduce(view(data, DType::kF64, {1}), view(data, DType::kF64, {1}), {}));
      ASSERT_EQ(data[0], kRanks * round);
    }
  });
  EXPECT_LT(monotonic_ns() - begin, int64_t{10'000'000'000});
}

TEST_P(TransportContract, AGroupOfOneAnswersAtOnce) {
  run(1, [&](Transport& transport) {
    auto group = make_group(transport, graph::Mesh{}, graph::kWorldMask);
    std::vector<double> in = {1, 2}, out = {0, 0};
    ASSERT_TRUE(group->all_reduce(view(in, DType::kF64, {2}), view(out, DType::kF64, {2}), {}));
    EXPECT_EQ(out, in);
    out = {0, 0};
    ASSERT_TRUE(group->all_gather(view(in, DType::kF64, {2}), view(out, DType::kF64, {2}), 0, {}));
    EXPECT_EQ(out, in);
    ASSERT_TRUE(group->barrier({}));
  });
}

}  // namespace
}  // namespace ingot::comm
