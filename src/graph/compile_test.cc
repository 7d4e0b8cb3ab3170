#include "graph/compile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "graph/ops.h"
#include "graph/targets/targets.h"
#include "graph/test_models.h"

namespace ingot::graph {
namespace {

std::string read_golden(const std::string& name) {
  std::ifstream in(std::string(INGOT_SOURCE_DIR) + "/src/graph/testdata/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

CompileOptions options_for(const Target& target, Precision precision = Precision::kF32) {
  CompileOptions options;
  options.targets = {&target};
  options.precision = precision;
  return options;
}

Program compiled(Graph graph, const CompileOptions& options) {
  Result<Program> program = compile(std::move(graph), options);
  INGOT_CHECK(program.has_value(), "{}", program.error().message);
  return std::move(program).value();
}

// The first line that differs, so that a failure reads well.
void expect_same_text(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected), b(actual);
  std::string x, y;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(a, x)), more_b = static_cast<bool>(std::getline(b, y));
    if (!more_a && !more_b) return;
    ASSERT_EQ(more_a ? x : "(end)", more_b ? y : "(end)") << "line " << line;
  }
}

TEST(Golden, GptTwoOnOneRank) {
  CompileOptions options = options_for(reference_target());
  options.layout.micro_batches = 2;
  const Program program = compiled(build_test_model({}), options);
  if (const char* to = std::getenv("INGOT_SHOW")) std::ofstream(to) << print(program);
  expect_same_text(read_golden("gpt2_one_rank.program.txt"), print(program));
}

}  // namespace
}  // namespace ingot::graph
