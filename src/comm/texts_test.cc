#include "comm/texts.h"

#include <gtest/gtest.h>

#include <thread>

namespace ingot::comm {
namespace {

// Calls body(communicator of the world) on a thread per rank.
template <class Body>
void on_all(int ranks, const Body& body) {
  auto world = make_local_world(ranks);
  graph::Mesh mesh;
  mesh.sizes[static_cast<size_t>(graph::Axis::kReplica)] = ranks;
  std::vector<std::thread> threads;
  for (auto& transport : world) {
    threads.emplace_back([&] {
      auto group = transport->group(mesh, graph::kWorldMask);
      INGOT_CHECK(group.has_value(), "{}", group.error().message);
      body(**group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string text_of(int rank) { return std::string(static_cast<size_t>(rank) * 1000, 'a' + char(rank)); }

TEST(Texts, TheRootGetsThoseOfAllAndTheOthersNone) {
  for (const int ranks : {1, 2, 5}) {
    on_all(ranks, [&](Communicator& group) {
      const int root = ranks - 1;
      auto texts = gather_texts(group, text_of(group.index()), root, {});
      ASSERT_TRUE(texts) << texts.error().message;
      ASSERT_EQ(texts->size(), group.index() == root ? static_cast<size_t>(ranks) : 0U);
      for (size_t i = 0; i < texts->size(); ++i) EXPECT_EQ((*texts)[i], text_of(static_cast<int>(i)));
    });
  }
}

TEST(Texts, EveryMemberGetsTheRootsText) {
  for (const std::string& text : {std::string(), std::string("one sentence"), text_of(9)}) {
    on_all(3, [&](Communicator& group) {
      auto got = broadcast_text(group, group.index() == 1 ? text : "another", 1, {});
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(*got, text);
    });
  }
}

TEST(Texts, EveryMemberGetsAll) {
  on_all(4, [&](Communicator& group) {
    auto texts = exchange_texts(group, text_of(group.index()), {});
    ASSERT_TRUE(texts) << texts.error().message;
    ASSERT_EQ(texts->size(), 4U);
    for (int i = 0; i < 4; ++i) EXPECT_EQ((*texts)[static_cast<size_t>(i)], text_of(i));
  });
}

TEST(Texts, AnErrorOfOneIsKnownToAllWithItsCode) {
  on_all(3, [&](Communicator& group) {
    const Result<std::string> own =
        group.index() == 2 ? Result<std::string>(corrupt("torn")) : Result<std::string>(text_of(1));
    auto results = exchange_results(group, own, {});
    ASSERT_TRUE(results) << results.error().message;
    ASSERT_EQ(results->size(), 3U);
    EXPECT_EQ(*(*results)[0], text_of(1));
    EXPECT_EQ((*results)[2].error().code, ErrorCode::kCorrupt);
    EXPECT_EQ((*results)[2].error().message, "torn");
    auto gathered = gather_results(group, own, 0, {});
    ASSERT_TRUE(gathered) << gathered.error().message;
    EXPECT_EQ(gathered->size(), group.index() == 0 ? 3U : 0U);
    auto value = broadcast_result(group, own, 0, {});
    EXPECT_TRUE(value && *value == text_of(1));
    auto error = broadcast_result(group, own, 2, {});
    ASSERT_FALSE(error);
    EXPECT_EQ(error.error().message, "torn");
  });
}

TEST(Texts, AMemberThatNeverComesIsNamed) {
  on_all(2, [&](Communicator& group) {
    if (group.index() == 1) return;
    auto texts = exchange_texts(group, "here", {.timeout = std::chrono::milliseconds(100), .what = "plans"});
    ASSERT_FALSE(texts);
    EXPECT_EQ(texts.error().code, ErrorCode::kFault);
    EXPECT_NE(texts.error().message.find("rank 1"), std::string::npos) << texts.error().message;
  });
}

}  // namespace
}  // namespace ingot::comm
