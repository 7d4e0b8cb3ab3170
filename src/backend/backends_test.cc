#include <gtest/gtest.h>

#include "backend/backend.h"

namespace ingot::backend {
namespace {

TEST(Backends, EveryRowCanBeMadeOrSaysWhyNot) {
  for (const BackendRow& row : all_backends()) {
    if (!row.unavailable().empty()) continue;
    auto backend = make_backend(row.name);
    ASSERT_TRUE(backend) << backend.error().message;
    EXPECT_EQ((*backend)->target().name, row.name);
    EXPECT_FALSE((*backend)->target().precisions.empty());
  }
}

TEST(Backends, AnUnknownNameListsTheKnownOnes) {
  auto backend = make_backend("abacus");
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("abacus"), std::string::npos);
  EXPECT_NE(backend.error().message.find("reference"), std::string::npos);
}

TEST(Backends, TheFarReferenceHasAMemorySpaceOfItsOwn) {
  auto near = make_backend("reference"), far = make_backend("reference-far");
  ASSERT_TRUE(near && far);
  EXPECT_FALSE((*near)->target().space == (*far)->target().space);
}

TEST(Backends, AnOperationWithoutAKernelIsNamed) {
  auto backend = make_backend("reference");
  ASSERT_TRUE(backend);
  graph::Graph graph;
  graph::Node node;
  node.op = graph::Op::kPack;
  auto bound = (*backend)->bind(graph, node);
  ASSERT_FALSE(bound);
  EXPECT_NE(bound.error().message.find("backend reference has no kernel for pack"), std::string::npos)
      << bound.error().message;
}

}  // namespace
}  // namespace ingot::backend
