#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/model.h"

namespace ingot::model {
namespace {

graph::Parameter normal(const std::string& name, double stddev) {
  graph::Parameter parameter;
  parameter.name = name;
  parameter.logical = parameter.stored = {90, 110};
  parameter.init.stddev = stddev;
  return parameter;
}

std::vector<double> values(const graph::Parameter& parameter, uint64_t seed, int64_t first, int64_t count) {
  std::vector<double> result(static_cast<size_t>(count));
  initialise(parameter, seed, first, count, {result.data(), tensor::DType::kF64, {count}});
  return result;
}

TEST(Initialise, AnyPieceHasTheValuesOfTheWhole) {
  const graph::Parameter parameter = normal("h.0.attn.q.weight", 0.02);
  const auto whole = values(parameter, 7, 0, 9900);
  for (const auto& [first, count] : {std::pair{int64_t{0}, int64_t{3}}, {1, 7}, {4953, 4947}, {9899, 1}}) {
    const auto piece = values(parameter, 7, first, count);
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(piece[static_cast<size_t>(i)], whole[static_cast<size_t>(first + i)]) << first << " " << i;
  }
  std::vector<float> single(9900);
  initialise(parameter, 7, 0, 9900, {single.data(), tensor::DType::kF32, {90, 110}});
  for (size_t i = 0; i < single.size(); ++i) EXPECT_EQ(single[i], static_cast<float>(whole[i]));
}

TEST(Initialise, NormalHasItsMeanAndDeviation) {
  double sum = 0, squares = 0;
  const auto drawn = values(normal("w", 0.02), 1, 0, 9900);
  for (const double x : drawn) {
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 9900, 0, 4 * 0.02 / std::sqrt(9900.0));
  EXPECT_NEAR(std::sqrt(squares / 9900), 0.02, 0.02 * 4 / std::sqrt(2 * 9900.0));
}

TEST(Initialise, NameAndSeedChangeTheValues) {
  const auto base = values(normal("a", 1), 1, 0, 4);
  EXPECT_NE(base, values(normal("b", 1), 1, 0, 4));
  EXPECT_NE(base, values(normal("a", 1), 2, 0, 4));
}

TEST(Initialise, OnesAndZeros) {
  graph::Parameter parameter = normal("w", 0);
  parameter.init.kind = graph::InitKind::kOnes;
  EXPECT_EQ(values(parameter, 1, 5, 2), (std::vector<double>{1, 1}));
  parameter.init.kind = graph::InitKind::kZeros;
  EXPECT_EQ(values(parameter, 1, 5, 2), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace ingot::model
