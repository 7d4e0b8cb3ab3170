#include "data/text_cut.h"

#include <gtest/gtest.h>

#include <string>

namespace ingot::data {
namespace {

TEST(TextCut, LastLetterBeforeWhitespace) {
  EXPECT_EQ(last_safe_cut("the cat sat"), 7u);
  EXPECT_EQ(last_safe_cut("the cat\n\nsat"), 7u);
  EXPECT_EQ(last_safe_cut("caf\xc3\xa9 x"), 5u);
  EXPECT_EQ(last_safe_cut("\xe4\xbd\xa0\n\xe5\xa5\xbd"), 3u);  // a CJK character, a newline, another
  EXPECT_EQ(last_safe_cut("\xed\x95\x9c \xea\xb8\x80"), 3u);   // Hangul
  EXPECT_EQ(last_safe_cut("ab "), 2u);
}

TEST(TextCut, NeverAfterAnythingElse) {
  EXPECT_EQ(last_safe_cut(""), 0u);
  EXPECT_EQ(last_safe_cut(" "), 0u);
  EXPECT_EQ(last_safe_cut(" abc"), 0u);
  EXPECT_EQ(last_safe_cut("1 2 3"), 0u);
  EXPECT_EQ(last_safe_cut("a. \n"), 0u);
  EXPECT_EQ(last_safe_cut("!\n!\n"), 0u);
  EXPECT_EQ(last_safe_cut("\xe3\x80\x82\nx"), 0u);     // ideographic full stop swallows the newline
  EXPECT_EQ(last_safe_cut("e\xcc\x81 x"), 0u);         // a combining mark is no letter
  EXPECT_EQ(last_safe_cut("\xc3\x97 x"), 0u);          // multiplication sign
  EXPECT_EQ(last_safe_cut("\xf0\x9f\x98\x80 x"), 0u);  // emoji
}

TEST(TextCut, BrokenUtf8IsNoLetter) {
  EXPECT_EQ(last_safe_cut("\xa9 x"), 0u);
  EXPECT_EQ(last_safe_cut("\x80\x80\x80 x"), 0u);
  EXPECT_EQ(last_safe_cut("\xe0\x81\xa1 x"), 0u);  // overlong 'a'
  EXPECT_EQ(last_safe_cut("\xc1\xa1 x"), 0u);      // overlong 'a' in two bytes
  EXPECT_EQ(last_safe_cut("\xff x"), 0u);
}

}  // namespace
}  // namespace ingot::data
