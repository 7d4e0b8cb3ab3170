// FLOPs counted from the operations of a compiled program are the formula of cost, to the last one.
#include "cost/flops.h"

#include <gtest/gtest.h>

#include "graph/compile.h"
#include "graph/ops.h"
#include "model/model.h"
#include "model/vectors_for_tests.h"

namespace ingot::model {
namespace {

// Of one micro-batch of one rank: forward and backward as they are compiled, without what is made again.
double counted_flops(const graph::Program& program) {
  double flops = 0;
  for (const graph::Segment& segment : program.code->segments) {
    const graph::Graph& chunk = program.code->chunks[static_cast<size_t>(segment.chunk)];
    for (const graph::Instruction& instruction : segment.instructions) {
      const graph::Node& node = chunk.nodes[static_cast<size_t>(instruction.node)];
      if (!node.clone) flops += graph::info(node.op).cost(chunk, node).flops;
    }
  }
  return flops;
}

graph::Program compiled(const spec::ModelSpec& spec, const graph::BuildOptions& shape,
                        graph::CompileOptions options) {
  options.purpose = shape.purpose;
  options.check = false;
  return graph::compile(build_graph(spec, shape).value(), options).value();
}

class CountedFlops : public ::testing::TestWithParam<const char*> {
 protected:
  graph::CompileOptions options() const {
    graph::CompileOptions options;
    options.targets = {graph::find_target(GetParam())};
    return options;
  }
};

TEST_P(CountedFlops, OfAStepAreTheFormula) {
  const graph::BuildOptions shape{.batch = 2, .sequence = 64};
  const double tokens = 2 * 64;
  for (const spec::ModelSpec& spec :
       {gpt2_spec(3, 48, 4, 101, 64), gpt2_spec(2, 48, 4, 101, 64, false), llama_spec(3, 48, 6, 2, 80, 101),
        llama_spec(2, 48, 6, 6, 80, 101, true), llama_spec(2, 48, 6, 3, 80, 101, false, 12)}) {
    for (const auto recompute :
         {graph::Recompute::kNone, graph::Recompute::kSelective, graph::Recompute::kFull}) {
      graph::CompileOptions how = options();
      how.recompute = recompute;
      EXPECT_EQ(counted_flops(compiled(spec, shape, how)),
                tokens * cost::flops_per_token(spec, 64, cost::FlopConvention::kMfuCausal))
          << spec.family << " " << static_cast<int>(recompute);
    }
  }
}

TEST_P(CountedFlops, OfGpt2SmallAreThePublishedFigure) {
  const spec::ModelSpec spec = gpt2_spec(12, 768, 12, 50304, 1024);
  const double flops = counted_flops(compiled(spec, {.batch = 4, .sequence = 1024}, options()));
  EXPECT_NEAR(flops / (4 * 1024) / 1e6, 798.03, 0.005);
}

// Cut over tp, all ranks together do the same products, and the head's once more (its statistics).
TEST_P(CountedFlops, OfTwoRanksAddTheHeadsStatistics) {
  const spec::ModelSpec spec = llama_spec(3, 48, 6, 2, 80, 102);
  graph::CompileOptions how = options();
  how.layout.mesh = graph::make_mesh(1, 2, 1, 1, 1, 2).value();
  const double formula = 128 * cost::flops_per_token(spec, 64, cost::FlopConvention::kMfuCausal);
  EXPECT_EQ(2 * counted_flops(compiled(spec, {.batch = 2, .sequence = 64}, how)),
            formula + 2.0 * 128 * 48 * 102);
}

TEST_P(CountedFlops, OfEvaluationAreAThird) {
  const spec::ModelSpec spec = gpt2_spec(3, 48, 4, 101, 64);
  const graph::BuildOptions shape{.purpose = graph::Purpose::kEvaluate, .batch = 2, .sequence = 64};
  EXPECT_EQ(counted_flops(compiled(spec, shape, options())) * 3,
            128 * cost::flops_per_token(spec, 64, cost::FlopConvention::kMfuCausal));
}

INSTANTIATE_TEST_SUITE_P(Target, CountedFlops, ::testing::Values("reference", "cpu"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace ingot::model
