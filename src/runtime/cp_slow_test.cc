// The sequence cut over cp, by the ring and by gathered keys and values, gives what one rank gives, in
// double.
#include <gtest/gtest.h>

#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

struct ContextLayout {
  std::string name;
  int cp = 2, tp = 1, dp = 1, pp = 1, zero = 0, virtual_stages = 1;
  std::string schedule = "1f1b";
  graph::Recompute recompute = graph::Recompute::kNone;
  int64_t sequence = 16;
};
void PrintTo(const ContextLayout& layout, std::ostream* out) { *out << layout.name; }

std::vector<ContextLayout> layouts() {
  using graph::Recompute;
  return {{.name = "cp2"},
          {.name = "cp4", .cp = 4},
          {.name = "cp3_tp2_sequence_not_cut", .cp = 3, .tp = 2, .sequence = 6},
          {.name = "cp2_tp2", .tp = 2},
          {.name = "cp2_tp4", .tp = 4},
          {.name = "cp4_tp2", .cp = 4, .tp = 2},
          {.name = "cp2_dp2", .dp = 2},
          {.name = "cp2_tp2_dp2", .tp = 2, .dp = 2},
          {.name = "cp2_selective", .recompute = Recompute::kSelective},
          {.name = "cp4_full", .cp = 4, .recompute = Recompute::kFull},
          {.name = "cp2_tp2_full", .tp = 2, .recompute = Recompute::kFull},
          {.name = "cp2_pp2", .pp = 2},
          {.name = "cp2_tp2_pp2_zero1", .tp = 2, .pp = 2, .zero = 1},
          {.name = "cp4_pp2_zb", .cp = 4, .pp = 2, .schedule = "zb-h1", .recompute = Recompute::kSelective},
          {.name = "cp2_pp2_interleaved_zero3",
           .pp = 2,
           .zero = 3,
           .virtual_stages = 2,
           .schedule = "interleaved"}};
}

using Case = std::tuple<NamedModel, ContextLayout, graph::ContextMode>;

class ContextParallel : public ::testing::TestWithParam<Case> {};

TEST_P(ContextParallel, EqualsOneRank) {
  const auto& [model, layout, mode] = GetParam();
  Training one;
  one.build = model.build;
  one.kv_heads = model.kv_heads;
  one.shape.sequence = layout.sequence;
  one.micro_batches = {2 * layout.dp};
  const Outcome expected = train(one);
  ASSERT_EQ(expected.error, "");
  ASSERT_EQ(expected.losses.size(), 5U);
  for (const bool lazy : {false, true}) {
    Training many = one;
    many.beside = !lazy;
    many.cp = layout.cp;
    many.tp = layout.tp;
    many.dp = layout.dp;
    many.pp = layout.pp;
    many.zero_stage = layout.zero;
    many.virtual_stages = layout.virtual_stages;
    many.schedule = layout.schedule;
    many.recompute = layout.recompute;
    many.context_mode = mode;
    many.micro_batches = {2};
    many.lazy = lazy;
    const Outcome outcome = train(many);
    ASSERT_EQ(outcome.error, "");
    const Worst worst = greatest_error(outcome, expected);
    EXPECT_LE(worst.difference, 1e-12) << worst.where << (lazy ? " lazy" : " eager");
  }
}

std::string case_name(const ::testing::TestParamInfo<Case>& test) {
  const bool ring = std::get<2>(test.param) == graph::ContextMode::kRing;
  return std::get<0>(test.param).name + "_" + std::get<1>(test.param).name + (ring ? "_ring" : "_gather");
}

const auto kModes = ::testing::Values(graph::ContextMode::kRing, graph::ContextMode::kGather);
INSTANTIATE_TEST_SUITE_P(Family, ContextParallel,
                         ::testing::Combine(::testing::ValuesIn(family_models()),
                                            ::testing::ValuesIn(layouts()), kModes),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Operation, ContextParallel,
                         ::testing::Combine(::testing::ValuesIn(operation_models()),
                                            ::testing::Values(ContextLayout{.name = "cp2_tp2", .tp = 2}),
                                            kModes),
                         case_name);

}  // namespace
}  // namespace ingot::runtime
