// Ranks that are a process each do what ranks of one process do.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "train/small_run_for_tests.h"

namespace ingot::train {
namespace {

struct Case {
  int dp = 1, tp = 1, pp = 1, cp = 1, zero_stage = 0;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << fmt::format("dp {} tp {} pp {} cp {} zero {}", one.dp, one.tp, one.pp, one.cp, one.zero_stage);
}

class JoinedRanks : public ::testing::TestWithParam<Case> {
 protected:
  SmallRun small() const {
    SmallRun small;
    small.dp = GetParam().dp;
    small.tp = GetParam().tp;
    small.pp = GetParam().pp;
    small.cp = GetParam().cp;
    small.zero_stage = GetParam().zero_stage;
    small.seq_len = 20;
    return small;
  }
  const SmallData data_;
};

TEST_P(JoinedRanks, TrainAsThreadsOfOneProcess) {
  auto together = make_session(small());
  const std::vector<double> losses = losses_of(train_from_start(*together, data_, 4));
  auto evaluated = together->evaluate(data_.stream(), 300);
  ASSERT_TRUE(evaluated) << evaluated.error().message;
  on_joined_ranks(small(), [&](Session& session, int rank) {
    EXPECT_EQ(session.team().size(), 1);
    EXPECT_EQ(losses_of(train_from_start(session, data_, 4)), losses) << rank;
    auto own = session.evaluate(data_.stream(), 300);
    ASSERT_TRUE(own) << own.error().message;
    EXPECT_EQ(own->loss, evaluated->loss) << rank;
    for (const Weights::Tensor& tensor : session.weights().tensors()) {
      const Weights::Tensor* same = together->weights().find(tensor.parameter, tensor.kind);
      ASSERT_NE(same, nullptr);
      for (const Weights::Block& block : tensor.blocks) {
        const auto twin = std::ranges::find_if(same->blocks, [&](const Weights::Block& other) {
          return other.index == rank && other.region.first == block.region.first &&
                 other.region.count == block.region.count;
        });
        ASSERT_NE(twin, same->blocks.end());
        EXPECT_EQ(std::memcmp(block.view.data, twin->view.data, static_cast<size_t>(block.view.bytes())), 0)
            << tensor.parameter;
      }
    }
  });
}

TEST_P(JoinedRanks, AllGetTheTimeThatRank0Measured) {
  std::mutex mutex;
  std::vector<double> seconds;
  on_joined_ranks(small(), [&](Session& session, int) {
    session.initialise();
    auto measured = session.measure_step(0.02);
    ASSERT_TRUE(measured) << measured.error().message;
    const std::lock_guard lock(mutex);
    seconds.push_back(*measured);
  });
  EXPECT_GT(seconds.front(), 0);
  EXPECT_EQ(seconds, std::vector<double>(seconds.size(), seconds.front()));
}

TEST_P(JoinedRanks, TheInstructionThatMadeANonFiniteValueIsKnownToAll) {
  std::mutex mutex;
  std::vector<std::string> names;
  on_joined_ranks(small(), [&](Session& session, int rank) {
    session.initialise();
    ASSERT_TRUE(session.start_data(data_.stream(), 0, nullptr));
    // On all ranks of the last stage: what one replica alone has wrong, ZeRO repairs.
    const graph::Mesh& mesh = session.run().mesh;
    const bool last = mesh.coordinate(rank, graph::Axis::kPp) == GetParam().pp - 1;
    const auto& tensors = session.weights().tensors();
    const auto gain = std::ranges::find_if(
        tensors, [](const Weights::Tensor& one) { return one.definition->logical.rank() == 1; });
    if (last) gain->blocks.front().view.as<float>()[1] = NAN;
    session.weights().touch();
    auto outcome = session.step(0, {});
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_FALSE(outcome->applied);
    const std::lock_guard lock(mutex);
    names.push_back(outcome->first_non_finite);
  });
  EXPECT_NE(names.front().find("forward[0]"), std::string::npos) << names.front();
  EXPECT_EQ(names, std::vector<std::string>(names.size(), names.front()));
}

INSTANTIATE_TEST_SUITE_P(All, JoinedRanks,
                         ::testing::Values(Case{.dp = 2}, Case{.tp = 2}, Case{.dp = 2, .tp = 2},
                                           Case{.pp = 2}, Case{.dp = 2, .pp = 2, .zero_stage = 1},
                                           Case{.cp = 2}, Case{.dp = 2, .zero_stage = 3}));

}  // namespace
}  // namespace ingot::train
