#pragma once
// The pre-tokenization patterns that have a hand-written scanner, and how other programs spell them. A
// pattern cuts text into pieces; merges never cross a border of pieces. Any other pattern goes through PCRE2
// (split_pattern.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ingot::data {

enum class Pattern : uint8_t {
  kGpt2,    // GPT-2, r50k, p50k: splits off one leading space; contractions in lower case only
  kCl100k,  // tiktoken's cl100k: digits in threes; whitespace at the end of text is one piece
  kLlama3,  // cl100k but for that whitespace rule
  kQwen2,   // llama3 with single digits
  kO200k,   // words by case; contractions belong to the word before them
};

struct PatternRow {
  Pattern pattern;
  std::string_view name;        // in options, descriptions and fingerprints
  std::string_view expression;  // as tokenizer.json files spell it, and as we write it
  std::string_view pcre2;  // the same for PCRE2, where \s and possessive counts differ; the oracle of tests
};

std::span<const PatternRow> patterns();
const PatternRow& pattern_row(Pattern pattern);
std::optional<Pattern> pattern_by_name(std::string_view name);              // also "r50k", "p50k", "..._base"
std::optional<Pattern> pattern_by_expression(std::string_view expression);  // every spelling that we know

}  // namespace ingot::data
