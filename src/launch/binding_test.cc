#include "launch/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace ingot::launch {
namespace {

TEST(Binding, SharesAreEqualAndApart) {
  const std::vector<Cpus> shares = share_by_number({0, 1, 2, 3, 8, 9}, 4);
  EXPECT_EQ(shares, (std::vector<Cpus>{{0}, {1, 2}, {3}, {8, 9}}));
}

TEST(Binding, MoreRanksThanProcessorsShareThem) {
  EXPECT_EQ(share_by_number({4, 7}, 5), (std::vector<Cpus>{{4}, {4}, {4}, {7}, {7}}));
}

// Whatever the machine looks like: every share lies in what is allowed, and none is empty.
TEST(Binding, SharesOfThisMachineCoverIt) {
  const Cpus allowed = allowed_cpus();
  for (const int ranks : {1, 2, 3, 8}) {
    const std::vector<Cpus> shares = share_cpus(allowed, ranks);
    ASSERT_EQ(shares.size(), static_cast<size_t>(ranks));
    Cpus all;
    for (const Cpus& share : shares) {
      EXPECT_FALSE(share.empty());
      all.insert(all.end(), share.begin(), share.end());
    }
    std::sort(all.begin(), all.end());
    if (static_cast<size_t>(ranks) <= allowed.size()) {
      EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end()) << "a processor given twice";
      EXPECT_EQ(all, allowed);
    }
    EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), all.begin(), all.end()) ||
                static_cast<size_t>(ranks) > allowed.size());
  }
}

TEST(Binding, BindsThisThreadAlone) {
  const Cpus before = allowed_cpus();
  std::thread([&] {
    ASSERT_TRUE(bind_to({before.back()}));
    EXPECT_EQ(allowed_cpus(), Cpus{before.back()});
  }).join();
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(Binding, AProcessorThatIsNotThereIsAnError) {
  const auto bound = bind_to({8000});
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().message, "cannot bind to processors 8000: Invalid argument");
}

TEST(Binding, NumbersAsPeopleWriteThem) {
  EXPECT_EQ(describe(Cpus{0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(describe(Cpus{5}), "5");
}

}  // namespace
}  // namespace ingot::launch
