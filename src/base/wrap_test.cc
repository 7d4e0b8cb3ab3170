#include "base/wrap.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(Wrapped, KeepsWhatFits) {
  EXPECT_EQ(wrapped("ten  chars", 14, 4), "ten  chars");
  EXPECT_EQ(wrapped("", 10, 4), "");
}

TEST(Wrapped, CutsAtSpacesWithAMargin) {
  EXPECT_EQ(wrapped("one two three four", 9, 2), "one two\n  three\n  four");
  EXPECT_EQ(wrapped("a\nb", 9, 2), "a\n  b") << "given lines have the margin too";
}

TEST(Wrapped, ALongWordStaysWhole) {
  EXPECT_EQ(wrapped("see /a/very/long/path now", 10, 0), "see\n/a/very/long/path\nnow");
}

TEST(Wrapped, CountsCharactersNotBytes) { EXPECT_EQ(wrapped("ééé ééé", 7, 0), "ééé ééé"); }

}  // namespace
}  // namespace ingot
