#pragma once
// Pre-tokenization by regular expressions that have no scanner of ours: one or more splits in sequence, each
// cutting the pieces of the one before, as Hugging Face's Split with behaviour Isolated does. Runs PCRE2 with
// its JIT; slower than scanner.h by a factor of five or more.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot::data {

enum class ExpressionDialect : unsigned char {
  kHuggingFace,  // Oniguruma: ^ and $ are ends of lines
  kPcre2,        // as PCRE2 reads it, $ only at the end of the text
  kLiteral,      // not an expression: the text itself
};

// A compiled sequence of splits; immutable, shared between threads.
class SplitPattern {
 public:
  // Fails with a sentence that quotes the expression and the place in it.
  static Result<std::unique_ptr<SplitPattern>> compile(std::span<const std::string> expressions,
                                                       std::span<const ExpressionDialect> dialects);
  ~SplitPattern();
  SplitPattern(const SplitPattern&) = delete;
  SplitPattern& operator=(const SplitPattern&) = delete;

 private:
  friend class SplitMatcher;
  SplitPattern();
  struct State;
  std::unique_ptr<State> state_;
};

// One thread's matching state; borrows the pattern.
class SplitMatcher {
 public:
  explicit SplitMatcher(const SplitPattern& pattern);
  ~SplitMatcher();
  SplitMatcher(const SplitMatcher&) = delete;
  SplitMatcher& operator=(const SplitMatcher&) = delete;

  // Replaces `ends` by the end of every piece of `text` as offsets, ascending; text that no match covers is a
  // piece too. Invalid UTF-8 bytes are characters of no class. Fails when PCRE2 runs out of stack or steps:
  // nothing of the text is ever skipped.
  Result<void> split(std::string_view text, std::vector<size_t>& ends);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::data
