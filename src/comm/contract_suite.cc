#include "comm/contract_suite.h"

#include <fmt/format.h>

#include <algorithm>
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

TEST_P(TransportContract, AllReduceGivesTheSameBitsEverywhereAndAgain) {
  const auto value = [](int rank, int i) {
    return 1.0 / (1 + rank * 7 + i) + 1e9 * (rank % 2 == 0 ? 1 : -1);
  };
  // Counts that the members cannot share evenly, fewer elements than members, and enough for many pieces.
  for (const int count : {37, 3, 100'001}) {
    for (const int ranks : {2, 4, 5}) {
      run(ranks, [&](Transport& transport) {
        auto group = make_group(transport, mesh_of(ranks, 1), graph::kTpMask);
        std::vector<double> firsts;  // rank 0's first sum
        for (const bool in_place : {false, true}) {
          std::vector<double> in(static_cast<size_t>(count)), out(in.size(), -1);
          for (int i = 0; i < count; ++i) in[static_cast<size_t>(i)] = value(transport.rank(), i);
          std::vector<double>& sum = in_place ? in : out;
          ASSERT_TRUE(group->all_reduce(view(in, DType::kF64, {count}), view(sum, DType::kF64, {count}), {}));
          for (int i = 0; i < count; ++i) {
            double expected = 0;
            for (int rank = 0; rank < ranks; ++rank) expected += value(rank, i);
            ASSERT_NEAR(sum[static_cast<size_t>(i)], expected, 1e-5) << i;
          }
          if (!in_place) {
            firsts = sum;
            ASSERT_TRUE(group->broadcast(view(firsts, DType::kF64, {count}), 0, {}));
          }
          ASSERT_EQ(sum, firsts) << count << " of " << ranks;
        }
      });
    }
  }
}

TEST_P(TransportContract, IntegersAreExact) {
  run(3, [&](Transport& transport) {
    auto group = make_group(transport, mesh_of(3, 1), graph::kTpMask);
    std::vector<int64_t> data = {(int64_t{1} << 60) + transport.rank(), -transport.rank()};
    ASSERT_TRUE(group->all_reduce(view(data, DType::kI64, {2}), view(data, DType::kI64, {2}), {}));
    EXPECT_EQ(data, (std::vector<int64_t>{3 * (int64_t{1} << 60) + 3, -3}));
  });
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

TEST_P(TransportContract, ScattersAndGathersInPlace) {
  for (const int part : {5, 40'000}) {
    constexpr int kRanks = 4;
    run(kRanks, [&](Transport& transport) {
      auto group = make_group(transport, mesh_of(1, kRanks), graph::kDpMask);
      const auto count = static_cast<size_t>(part);
      std::vector<double> data(count * kRanks);
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<double>(i) * (1 + transport.rank());
      const size_t first = count * static_cast<size_t>(group->index());
      const TensorView whole = view(data, DType::kF64, {part * kRanks});
      const TensorView own{data.data() + first, DType::kF64, {part}};
      ASSERT_TRUE(group->reduce_scatter(whole, own, 0, {}));
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(data[first + i], static_cast<double>(10 * (first + i))) << i;
      ASSERT_TRUE(group->all_gather(own, whole, 0, {}));
      for (size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], static_cast<double>(10 * i)) << i;
    });
  }
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

TEST_P(TransportContract, RowsGoFromMemberToMember) {
  constexpr int kRanks = 3, kWidth = 5;
  const auto rows = [](int from, int to) { return int64_t{(from + 2 * to) % 4}; };  // some of them none
  run(kRanks, [&](Transport& transport) {
    auto group = make_group(transport, mesh_of(1, kRanks), graph::kDpMask);
    const int own = transport.rank();
    std::vector<int64_t> sent, received;
    std::vector<int32_t> in, expected;
    for (int other = 0; other < kRanks; ++other) {
      sent.push_back(rows(own, other));
      received.push_back(rows(other, own));
      for (int64_t i = 0; i < sent.back() * kWidth; ++i) in.push_back(1000 * own + 100 * other + int(i));
      for (int64_t i = 0; i < received.back() * kWidth; ++i)
        expected.push_back(1000 * other + 100 * own + int(i));
    }
    std::vector<int32_t> out(expected.size(), -1);
    const auto rows_of = [&](const std::vector<int32_t>& data) { return int64_t{std::ssize(data) / kWidth}; };
    for (int time = 0; time < 2; ++time) {
      ASSERT_TRUE(group->all_to_all(view(in, DType::kI32, Shape{rows_of(in), kWidth}), sent,
                                    view(out, DType::kI32, {rows_of(out), kWidth}), received, {}));
      EXPECT_EQ(out, expected);
    }
  });
}

TEST_P(TransportContract, GroupsAreMadeOfListsToo) {
  run(4, [&](Transport& transport) {
    const std::vector<int> ranks = {3, 0, 2};
    if (transport.rank() == 1) {
      EXPECT_FALSE(transport.group(ranks));
      EXPECT_FALSE(transport.group(std::vector<int>{1, 4}));
      EXPECT_FALSE(transport.group(std::vector<int>{1, 1}));
      return;
    }
    auto group = transport.group(ranks);
    ASSERT_TRUE(group);
    const auto place = std::find(ranks.begin(), ranks.end(), transport.rank());
    EXPECT_EQ((*group)->size(), 3);
    EXPECT_EQ((*group)->index(), place - ranks.begin());
    std::vector<int32_t> own = {transport.rank()}, all(3, -1);
    ASSERT_TRUE((*group)->all_gather(view(own, DType::kI32, {1}), view(all, DType::kI32, {3}), 0, {}));
    EXPECT_EQ(all, ranks);
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
  Told errors, warnings;
  const auto body = [&](Transport& transport) {
    const int rank = transport.rank();
    transport.on_warning([&warnings, rank](const std::string& text) { warnings.add(rank, text); });
    auto group = make_group(transport, mesh_of(4, 1), graph::kTpMask);
    if (rank == 2) return;
    std::vector<float> data(1 << 18);
    const TensorView all = view(data, DType::kF32, {1 << 18});
    auto result = group->all_reduce(all, all, quickly(88, "gradients of layer 12"));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kFault);
    errors.add(rank, result.error().message);
    // The group is broken: later calls fail at once with the same words.
    auto again = group->barrier({});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, result.error().message);
  };
  run(4, body, true);
  const std::string call = "all_reduce #88 (gradients of layer 12, 1.00 MiB) for 0.";
  if (GetParam().errors_are_shared) {
    EXPECT_EQ(errors.texts().size(), 3);
    for (const auto& [rank, text] : errors.texts())
      EXPECT_EQ(text, "rank 2 has not arrived at " + call + "4 s; 3 of 4 wait there");
    ASSERT_EQ(warnings.texts().size(), 1);
    EXPECT_EQ(warnings.texts().begin()->second,
              "rank 2 has not arrived at " + call + "2 s; 3 of 4 wait there");
    return;
  }
  int named = 0;
  for (const auto& [rank, text] : errors.texts()) {
    EXPECT_EQ(text.find(fmt::format("rank {} waits for rank ", rank)), 0) << text;
    EXPECT_NE(text.find(call + "4 s"), std::string::npos) << text;
    EXPECT_EQ(warnings.texts().count(rank), 1);
    named += text.find("for rank 2 in") != std::string::npos;
  }
  if (errors.texts().size() == 3) {
    EXPECT_GE(named, 1);
  }
  for (const auto& [rank, text] : warnings.texts())
    EXPECT_NE(text.find(call + "2 s"), std::string::npos) << text;
}

TEST_P(TransportContract, AMessageThatDoesNotComeIsNamed) {
  const auto body = [&](Transport& transport) {
    auto group = make_group(transport, mesh_of(2, 1), graph::kTpMask);
    if (transport.rank() == 1) return;
    std::vector<float> data(4);
    auto result = group->receive(view(data, DType::kF32, {4}), 1, 3, quickly(17));
    ASSERT_FALSE(result);
    for (const char* part : {"rank 1 has not sent", "tag 3", "0.4 s", "rank 0 waits in receive #17"})
      EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  };
  run(2, body, true);
}

// Rank 0 calls `a`, rank 1 `b`: what they are told, "" where a call succeeds.
using Action = std::function<Result<void>(Communicator&)>;
std::function<void(Transport&)> mismatched(const Action& a, const Action& b,
                                           const std::function<void(int, const std::string&)>& told) {
  return [=](Transport& transport) {
    auto group = make_group(transport, mesh_of(2, 1), graph::kTpMask);
    auto result = (transport.rank() == 0 ? a : b)(*group);
    told(transport.rank(), result ? "" : result.error().message);
  };
}

void expect_pieces(const std::string& text, std::initializer_list<const char*> pieces) {
  for (const char* piece : pieces) EXPECT_NE(text.find(piece), std::string::npos) << text;
}

TEST_P(TransportContract, AnotherOperationIsNamed) {
  std::vector<float> in(8), out(8), part(4);
  const Action reduce = [&](Communicator& group) {
    return group.all_reduce(view(in, DType::kF32, {8}), view(in, DType::kF32, {8}), quickly(5, "sums"));
  };
  const Action gather = [&](Communicator& group) {
    return group.all_gather(view(part, DType::kF32, {4}), view(out, DType::kF32, {8}), 0,
                            quickly(6, "table"));
  };
  const auto told = [](int, const std::string& text) {
    expect_pieces(text, {"rank 0 calls all_reduce #5 (sums", "rank 1 calls all_gather #6 (table"});
  };
  run(2, mismatched(reduce, gather, told), true);
}

TEST_P(TransportContract, AnotherSizeAndASkippedCallAreNamed) {
  std::vector<float> small(4), large(8);
  const auto reduce = [](std::vector<float>& data) -> Action {
    return [&data](Communicator& group) {
      const TensorView all = view(data, DType::kF32, {std::ssize(data)});
      return group.all_reduce(all, all, quickly(5));
    };
  };
  run(2,
      mismatched(reduce(small), reduce(large),
                 [](int, const std::string& text) {
                   expect_pieces(text, {"16 B", "32 B"});
                 }),
      true);
  // Rank 1 has made a call that rank 0 has not: told as a missing member, in words.
  const auto missing = [](int rank, const std::string& text) {
    if (rank == 0) return;
    EXPECT_EQ(text, GetParam().errors_are_shared
                        ? "rank 0 has not arrived at barrier #9 for 0.4 s; 1 of 2 wait there"
                        : "rank 1 waits for rank 0 in barrier #9 for 0.4 s");
  };
  run(2,
      mismatched([](Communicator&) { return Result<void>(); },
                 [](Communicator& group) { return group.barrier(quickly(9)); }, missing),
      true);
}

TEST_P(TransportContract, AMessageOfAnotherSizeIsNamed) {
  std::vector<float> small(4), large(8);
  const auto told = [](int rank, const std::string& text) {
    if (rank == 0)
      EXPECT_EQ(text, "");
    else
      expect_pieces(text, {"receive #4", "send #3", "16 B", "32 B"});
  };
  run(2,
      mismatched(
          [&](Communicator& group) { return group.send(view(small, DType::kF32, {4}), 1, 0, quickly(3)); },
          [&](Communicator& group) { return group.receive(view(large, DType::kF32, {8}), 0, 0, quickly(4)); },
          told),
      true);
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
