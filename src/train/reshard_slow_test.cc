// A run saved on one layout goes on on another as if nothing had happened.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "train/checkpointing.h"
#include "train/small_run_for_tests.h"

namespace ingot::train {
namespace {

const DataIdentity kIdentity{.data = "d1", .tokenizer = "t1"};
constexpr int64_t kSavedStep = 4, kEnd = 8;

struct Layout {
  int dp = 1, tp = 1, pp = 1, zero_stage = 0, zero_group = 0, cp = 1;
};
std::string name_of(const Layout& layout) {
  std::string name = fmt::format("dp{}tp{}pp{}zero{}", layout.dp, layout.tp, layout.pp, layout.zero_stage);
  if (layout.zero_group > 0) name += fmt::format("group{}", layout.zero_group);
  if (layout.cp > 1) name += fmt::format("cp{}", layout.cp);
  return name;
}
void PrintTo(const Layout& layout, std::ostream* out) { *out << name_of(layout); }

SmallRun small_run(const std::string& family, const Layout& layout) {
  SmallRun small;
  small.family = family;
  small.backend = "reference";
  small.precision = graph::Precision::kF64;
  small.micro_batch = 1;
  small.seq_len = 20;
  small.dp = layout.dp;
  small.tp = layout.tp;
  small.pp = layout.pp;
  small.cp = layout.cp;
  small.zero_stage = layout.zero_stage;
  small.zero_group = layout.zero_group;
  return small;
}

// The checkpoint of step kSavedStep of a run on a layout, by threads of one process or by ranks that joined.
class Resharding : public ::testing::TestWithParam<Layout> {
 protected:
  std::string folder() const { return checkpoint_folder(data_.folder() / "run"); }

  void save(const SmallRun& small, bool joined) {
    const auto body = [&](Session& session, int) {
      train_from_start(session, data_, kSavedStep);
      auto report = save_session(session, folder(), {.step = kSavedStep}, kIdentity);
      ASSERT_TRUE(report) << report.error().message;
    };
    if (joined) {
      on_joined_ranks(small, body);
    } else {
      body(*make_session(small), 0);
    }
  }

  std::vector<double> resumed_losses(Session& session) {
    auto saved = checkpoint::Checkpoint::open(folder() + "/" + checkpoint::step_folder(kSavedStep));
    INGOT_CHECK(saved.has_value(), "{}", saved.error().message);
    auto progress = load_session(session, *saved, kIdentity);
    INGOT_CHECK(progress.has_value(), "{}", progress.error().message);
    auto started = session.start_data(data_.stream(), progress->step, nullptr);
    INGOT_CHECK(started.has_value(), "{}", started.error().message);
    return losses_of(train_steps(session, progress->step, kEnd));
  }

  const SmallData data_;
};

void expect_near(const std::vector<double>& losses, const std::vector<double>& expected,
                 const std::string& where) {
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 1e-11) << where << " step " << i;
}

// What one rank does without any checkpoint; the same for all layouts.
const std::vector<double>& undisturbed(const std::string& family, const SmallData& data) {
  static std::map<std::string, std::vector<double>> known;
  std::vector<double>& losses = known[family];
  if (losses.empty()) {
    auto session = make_session(small_run(family, {}));
    losses = losses_of(train_from_start(*session, data, kEnd));
    losses.erase(losses.begin(), losses.begin() + kSavedStep);
  }
  return losses;
}

TEST_P(Resharding, GoesOnFromDp2Tp2) {
  for (const std::string family : {"llama", "gpt2"}) {
    save(small_run(family, {.dp = 2, .tp = 2}), true);
    auto session = make_session(small_run(family, GetParam()));
    expect_near(resumed_losses(*session), undisturbed(family, data_), family);
  }
}

TEST_P(Resharding, IsSavedForOneRank) {
  for (const std::string family : {"llama", "gpt2"}) {
    save(small_run(family, GetParam()), false);
    auto session = make_session(small_run(family, {}));
    expect_near(resumed_losses(*session), undisturbed(family, data_), family);
  }
}

TEST_P(Resharding, JoinedRanksSaveAndGoOnEachForItself) {
  save(small_run("gpt2", GetParam()), true);
  const std::vector<double> expected = undisturbed("gpt2", data_);
  on_joined_ranks(small_run("gpt2", GetParam()), [&](Session& session, int rank) {
    expect_near(resumed_losses(session), expected, fmt::format("rank {}", rank));
  });
}

constexpr Layout kLayouts[] = {{},
                               {.dp = 2},
                               {.tp = 2},
                               {.dp = 4},
                               {.dp = 2, .zero_stage = 1},
                               {.dp = 2, .tp = 2, .zero_stage = 2},
                               {.dp = 4, .zero_stage = 3},
                               {.dp = 4, .zero_stage = 3, .zero_group = 2},
                               {.pp = 2},
                               {.dp = 2, .pp = 2, .zero_stage = 1},
                               {.tp = 2, .pp = 2},
                               {.dp = 2, .zero_stage = 3, .cp = 2}};
INSTANTIATE_TEST_SUITE_P(All, Resharding, ::testing::ValuesIn(kLayouts),
                         [](const auto& test) { return name_of(test.param); });

// With determinism = "layout" the bits do not even know of the change.
TEST(Reshard, AnotherDpGoesOnWithTheSameBits) {
  const SmallData data;
  const std::string folder = checkpoint_folder(data.folder() / "run");
  SmallRun small;
  small.determinism_groups = 4;
  auto undisturbed = make_session(small);
  const std::vector<double> losses = losses_of(train_from_start(*undisturbed, data, kEnd));
  small.dp = 2;
  small.zero_stage = 1;
  auto saved = make_session(small);
  train_from_start(*saved, data, kSavedStep);
  auto report = save_session(*saved, folder, {.step = kSavedStep}, kIdentity);
  ASSERT_TRUE(report) << report.error().message;
  for (const int dp : {1, 2, 4}) {
    small.dp = dp;
    auto session = make_session(small);
    auto checkpoint = checkpoint::Checkpoint::open(report->path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    ASSERT_TRUE(load_session(*session, *checkpoint, kIdentity));
    ASSERT_TRUE(session->start_data(data.stream(), kSavedStep, nullptr));
    EXPECT_EQ(losses_of(train_steps(*session, kSavedStep, kEnd)),
              std::vector<double>(losses.begin() + kSavedStep, losses.end()))
        << dp;
    EXPECT_EQ(all_weights(*session), all_weights(*undisturbed)) << dp;
  }
}

// What two ranks hold alike, one writes.
TEST(Reshard, NoElementIsWrittenTwice) {
  for (const Layout& layout : kLayouts) {
    auto session = make_session(small_run("gpt2", layout));
    std::map<std::string, int64_t> written, whole;
    for (int i = 0; i < session->team().size(); ++i) {
      for (const checkpoint::TensorGroup& group : tensor_groups(session->weights(), i, true)) {
        for (const checkpoint::NamedTensor& tensor : group.tensors) {
          written[tensor.name] += tensor.view.elements();
          whole[tensor.name] = (tensor.part ? tensor.part->whole : tensor.view.shape).elements();
        }
      }
    }
    EXPECT_EQ(written, whole) << name_of(layout);
  }
}

}  // namespace
}  // namespace ingot::train
