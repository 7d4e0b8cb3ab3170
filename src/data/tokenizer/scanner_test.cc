#include "data/tokenizer/scanner.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "data/tokenizer/split_pattern.h"
#include "data/tokenizer/unicode_classes.h"

namespace ingot::data {
namespace {

std::vector<std::string> pieces(Pattern pattern, std::string_view text) {
  std::vector<const char*> ends(text.size() + 1);
  const size_t count =
      scan_function(pattern)(text.data(), text.data() + text.size(), ends.data(), ends.size());
  std::vector<std::string> result;
  const char* begin = text.data();
  for (size_t i = 0; i < count; begin = ends[i++]) result.emplace_back(begin, ends[i]);
  EXPECT_EQ(begin, text.data() + text.size());
  return result;
}

using Pieces = std::vector<std::string>;

TEST(ScannerTest, CutsAsThePublishedPatternsSay) {
  EXPECT_EQ(pieces(Pattern::kGpt2, "Hello world's  end 12345!"),
            (Pieces{"Hello", " world", "'s", " ", " end", " 12345", "!"}));
  EXPECT_EQ(pieces(Pattern::kLlama3, "it'S 12345\n\n  x"),
            (Pieces{"it", "'S", " ", "123", "45", "\n\n", " ", " x"}));
  EXPECT_EQ(pieces(Pattern::kQwen2, "a12"), (Pieces{"a", "1", "2"}));
  EXPECT_EQ(pieces(Pattern::kO200k, "HTTPServer don't/\n"), (Pieces{"HTTPServer", " don't", "/\n"}));
  EXPECT_EQ(pieces(Pattern::kCl100k, "a\n\n  "), (Pieces{"a", "\n\n  "}));
  EXPECT_EQ(pieces(Pattern::kLlama3, "a\n\n  "), (Pieces{"a", "\n\n", "  "}));
  EXPECT_EQ(pieces(Pattern::kGpt2, ""), Pieces{});
}

TEST(ScannerTest, MatchesManyPiecesAcrossBatchBorders) {
  const std::string text = "one two  three\n\nfour 5678 'll";
  for (const PatternRow& row : patterns()) {
    const Pieces whole = pieces(row.pattern, text);
    Pieces stepped;
    const char* p = text.data();
    const char* const end = p + text.size();
    for (const char* next = nullptr; scan_function(row.pattern)(p, end, &next, 1) == 1; p = next) {
      stepped.emplace_back(p, next);
    }
    EXPECT_EQ(stepped, whole) << row.name;
  }
}

// Characters where patterns differ or engines have been wrong, with weights by repetition.
std::vector<std::string> hard_alphabet() {
  std::vector<std::string> result = {"a",
                                     "Z",
                                     "s",
                                     "S",
                                     "'",
                                     "'s",
                                     "'LL",
                                     "'re",
                                     " ",
                                     "  ",
                                     "\n",
                                     "\r\n",
                                     "\t",
                                     "1",
                                     "23",
                                     "/",
                                     "!",
                                     "\xc5\xbf",
                                     "'\xc5\xbf",
                                     "\xe1\xa0\x8e",
                                     "\xe2\x84\xaa",
                                     "\xc2\xa0",
                                     "\xc2\x85",
                                     "\xe3\x80\x80",
                                     "\xcc\x81",
                                     "e\xcc\x81",
                                     "\xe4\xb8\xad",
                                     "\xe3\x81\x82",
                                     "\xd8\xb9",
                                     "\xc7\x85",
                                     "\xca\xb0",
                                     "\xc3\x9f",
                                     "\xf0\x9f\x98\x80",
                                     "\xef\xb8\x8f",
                                     "\xe2\x80\x8d",
                                     "\xe2\x85\xa7",
                                     "\xc2\xbd",
                                     "\xff",
                                     "\xc3",
                                     "\xe2\x82",
                                     "\xed\xa0\x80",
                                     "\xf4\x90\x80\x80",
                                     "\xc0\xaf",
                                     "\xf0\x9d\x90\x80",
                                     "word",
                                     "WORD",
                                     std::string(1, '\0')};
  for (const char* repeated : {" ", " ", " ", "\n", "a", "Z", "'"}) result.emplace_back(repeated);
  return result;
}

class ScannerOracleTest : public testing::TestWithParam<Pattern> {};

TEST_P(ScannerOracleTest, EqualsPcre2OnRandomHardCases) {
  const PatternRow& row = pattern_row(GetParam());
  const std::vector<std::string> expressions{std::string(row.pcre2)};
  const std::vector<ExpressionDialect> dialects{ExpressionDialect::kPcre2};
  auto compiled = SplitPattern::compile(expressions, dialects);
  ASSERT_TRUE(compiled) << compiled.error().message;
  SplitMatcher matcher(**compiled);
  const std::vector<std::string> alphabet = hard_alphabet();
  std::mt19937 random(20240607);
  std::vector<size_t> expected;
  std::vector<const char*> ends;
  for (int round = 0; round < 100000; ++round) {
    std::string text;
    const size_t length = 1 + random() % 24;
    for (size_t i = 0; i < length; ++i) {
      if (round % 8 == 0) {
        text += static_cast<char>(random() % 256);
      } else {
        text += alphabet[random() % alphabet.size()];
      }
    }
    ASSERT_TRUE(matcher.split(text, expected));
    ends.resize(text.size());
    const size_t count =
        scan_function(row.pattern)(text.data(), text.data() + text.size(), ends.data(), ends.size());
    std::vector<size_t> found;
    for (size_t i = 0; i < count; ++i) found.push_back(static_cast<size_t>(ends[i] - text.data()));
    ASSERT_EQ(found, expected) << row.name << " round " << round << ": " << testing::PrintToString(text);
  }
}

// Longer than the blocks that are scanned at once, and given few ends at a time, as encoders ask.
TEST_P(ScannerOracleTest, EqualsPcre2OnProse) {
  const PatternRow& row = pattern_row(GetParam());
  const std::vector<std::string> expressions{std::string(row.pcre2)};
  const std::vector<ExpressionDialect> dialects{ExpressionDialect::kPcre2};
  auto compiled = SplitPattern::compile(expressions, dialects);
  ASSERT_TRUE(compiled) << compiled.error().message;
  SplitMatcher matcher(**compiled);
  const std::vector<std::string> rare{"'s",
                                      "'",
                                      "  ",
                                      "\n",
                                      " \n",
                                      "\t",
                                      "\xc3\xa9",
                                      "\xe3\x80\x80",
                                      "\xff",
                                      "\x7f",
                                      std::string(70, 'x'),
                                      std::string(70, ' ')};
  const std::string_view letters = "abzAZ", others = "09!-@[`{/:~";
  std::mt19937 random(20240608);
  std::vector<size_t> expected;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    const size_t words = 1 + random() % 60;
    for (size_t i = 0; i < words; ++i) {
      for (size_t n = random() % 9; n > 0; --n) text += letters[random() % letters.size()];
      for (size_t n = random() % 3; n > 0; --n) text += others[random() % others.size()];
      if (random() % 16 == 0) text += rare[random() % rare.size()];
      if (random() % 8 != 0) text += ' ';
    }
    ASSERT_TRUE(matcher.split(text, expected));
    const size_t room = 1 + random() % 200;
    std::vector<const char*> ends(room);
    std::vector<size_t> found;
    for (const char *p = text.data(), *end = p + text.size(); p < end; p = ends[0]) {
      const size_t count = scan_function(row.pattern)(p, end, ends.data(), room);
      ASSERT_TRUE(count >= 1 && count <= room);
      for (size_t i = 0; i < count; ++i) found.push_back(static_cast<size_t>(ends[i] - text.data()));
      ends[0] = ends[count - 1];
    }
    ASSERT_EQ(found, expected) << row.name << " round " << round << ": " << testing::PrintToString(text);
  }
}

// Every code point, between letters, so that its class decides the pieces.
TEST_P(ScannerOracleTest, EqualsPcre2OnEveryCodePoint) {
  const PatternRow& row = pattern_row(GetParam());
  const std::vector<std::string> expressions{std::string(row.pcre2)};
  const std::vector<ExpressionDialect> dialects{ExpressionDialect::kPcre2};
  auto compiled = SplitPattern::compile(expressions, dialects);
  ASSERT_TRUE(compiled) << compiled.error().message;
  SplitMatcher matcher(**compiled);
  std::vector<size_t> expected;
  for (uint32_t code = 0; code < 0xe0200; code = code == 0x33500 ? 0xe0000 : code + 1) {
    if (code >= 0xd800 && code < 0xe000) continue;
    char bytes[4];
    const std::string character(bytes, encode_char(code, bytes));
    const std::string text =
        "a" + character + "b" + character + character + "1" + character + " " + character;
    ASSERT_TRUE(matcher.split(text, expected));
    std::vector<const char*> ends(text.size());
    const size_t count =
        scan_function(row.pattern)(text.data(), text.data() + text.size(), ends.data(), ends.size());
    std::vector<size_t> found;
    for (size_t i = 0; i < count; ++i) found.push_back(static_cast<size_t>(ends[i] - text.data()));
    ASSERT_EQ(found, expected) << row.name << " U+" << std::hex << code;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, ScannerOracleTest,
                         testing::Values(Pattern::kGpt2, Pattern::kCl100k, Pattern::kLlama3, Pattern::kQwen2,
                                         Pattern::kO200k),
                         [](const auto& test) { return std::string(pattern_row(test.param).name); });

TEST(SplitPatternTest, UncoveredTextIsAPieceAndStagesNest) {
  const std::vector<std::string> expressions{"\\p{N}{1,3}", "b+"};
  const std::vector<ExpressionDialect> dialects{ExpressionDialect::kHuggingFace,
                                                ExpressionDialect::kHuggingFace};
  auto compiled = SplitPattern::compile(expressions, dialects);
  ASSERT_TRUE(compiled);
  SplitMatcher matcher(**compiled);
  std::vector<size_t> ends;
  ASSERT_TRUE(
      matcher.split("abbc1234\xff"
                    "b",
                    ends));
  EXPECT_EQ(ends, (std::vector<size_t>{1, 3, 4, 7, 8, 9, 10}));
}

TEST(SplitPatternTest, RefusesWhatItCannotReadAlike) {
  const std::vector<ExpressionDialect> dialects{ExpressionDialect::kHuggingFace};
  auto broken = SplitPattern::compile(std::vector<std::string>{"(a"}, dialects);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("(a"), std::string::npos);
  EXPECT_FALSE(SplitPattern::compile(std::vector<std::string>{"\\p{N}{1,3}+"}, dialects));
}

TEST(SplitPatternTest, ExhaustedStackIsASentence) {
  const std::vector<std::string> expressions{"(?:(a)|b|(c))+?(?=d)|x"};
  const std::vector<ExpressionDialect> dialects{ExpressionDialect::kPcre2};
  auto compiled = SplitPattern::compile(expressions, dialects);
  ASSERT_TRUE(compiled);
  SplitMatcher matcher(**compiled);
  std::vector<size_t> ends;
  auto result = matcher.split(std::string(8 << 20, 'a'), ends);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("backtracking"), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace ingot::data
