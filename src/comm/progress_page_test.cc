#include "comm/progress_page.h"

#include <gtest/gtest.h>

namespace ingot::comm {
namespace {

TEST(ProgressPage, SaysInWhatARankWaits) {
  ProgressPage page;
  EXPECT_EQ(page.said(), "");
  page.instruction = 88;
  page.say("all_reduce", "gradients of layer 12");
  EXPECT_EQ(page.said(), "all_reduce #88 (gradients of layer 12)");
  page.instruction = -1;
  page.say("barrier", "");
  EXPECT_EQ(page.said(), "barrier");
  page.say("reduce_scatter", "a description that is longer than the page has room for");
  EXPECT_EQ(page.said(), "reduce_scatter (a description that is longer than)") << "cut at the page's end";
}

}  // namespace
}  // namespace ingot::comm
