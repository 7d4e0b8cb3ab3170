#include "data/tokenizer/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "data/tokenizer/unicode_classes.h"

namespace ingot::data {
namespace {

// U+10F000 + byte stands for an invalid byte: private use, so of no class that an expression can name.
constexpr uint32_t kInvalidByteBase = 0x10f000;
constexpr size_t kStandInBytes = 4;
// Characters that PCRE2's older Unicode does not know are replaced by known ones of the same class.
struct Representative {
  uint8_t cls;
  uint32_t code;
};
constexpr std::array<Representative, 6> kRepresentatives = {{{kLetter | kUpperLike, 0x1d400},
                                                             {kLetter | kLowerLike, 0x1d41a},
                                                             {kLetter | kUpperLike | kLowerLike, 0x10280},
                                                             {kMark | kUpperLike | kLowerLike, 0xe0100},
                                                             {kNumber, 0x10107},
                                                             {kSymbol, 0x1f600}}};
constexpr size_t kJitStackStart = 64 << 10;
constexpr size_t kJitStackLimit = 64 << 20;

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct JitStackFree {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
using Code = std::unique_ptr<pcre2_code, CodeFree>;

PCRE2_SPTR as_pcre2(const char* p) { return reinterpret_cast<PCRE2_SPTR>(p); }

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// PCRE2's \s takes U+180E, which White_Space and so the reference implementations do not.
std::string with_unicode_space(std::string_view expression) {
  std::string result;
  for (size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] != '\\' || i + 1 == expression.size()) {
      result += expression[i];
      continue;
    }
    const char escaped = expression[++i];
    if (escaped == 's') {
      result += "\\p{White_Space}";
    } else if (escaped == 'S') {
      result += "\\P{White_Space}";
    } else {
      result += '\\';
      result += escaped;
    }
  }
  return result;
}

// "{1,3}+" is possessive to PCRE2 and a repeated group to Oniguruma.
bool has_ambiguous_count(std::string_view expression) {
  for (size_t close = expression.find("}+"); close != std::string_view::npos;
       close = expression.find("}+", close + 1)) {
    const size_t open = expression.rfind('{', close);
    if (open != std::string_view::npos && open + 1 < close && expression[open + 1] >= '0' &&
        expression[open + 1] <= '9')
      return true;
  }
  return false;
}

Result<Code> compile_one(const std::string& expression, ExpressionDialect dialect) {
  if (dialect == ExpressionDialect::kHuggingFace && has_ambiguous_count(expression)) {
    return invalid(
        fmt::format("the pattern '{}' holds a count followed by +, which engines read differently; "
                    "write the count without the +",
                    expression));
  }
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY;
  std::string source = expression;
  if (dialect == ExpressionDialect::kLiteral) {
    options = PCRE2_UTF | PCRE2_LITERAL;
  } else if (dialect == ExpressionDialect::kHuggingFace) {
    options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
    source = with_unicode_space(expression);
  }
  int error = 0;
  size_t at = 0;
  Code code(pcre2_compile(as_pcre2(source.data()), source.size(), options, &error, &at, nullptr));
  if (!code) {
    return invalid(fmt::format("the pattern '{}' cannot be compiled: {} at byte {}", expression,
                               pcre2_message(error), at));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without a JIT the interpreter matches the same text
  return code;
}

// The code points that our Unicode tables give a class and PCRE2 takes for unassigned.
Result<std::vector<bool>> newer_than_pcre2() {
  std::string known;
  for (uint32_t code = 0x80; code < 0x110000; ++code) {
    if (CharClasses::get().of(code) == 0) continue;
    char bytes[4];
    known.append(bytes, encode_char(code, bytes));
  }
  INGOT_TRY(const Code unassigned, compile_one("\\p{Cn}", ExpressionDialect::kPcre2));
  const std::unique_ptr<pcre2_match_data, MatchDataFree> match(pcre2_match_data_create(1, nullptr));
  std::vector<bool> newer(0x110000);
  for (size_t from = 0; pcre2_match(unassigned.get(), as_pcre2(known.data()), known.size(), from,
                                    PCRE2_NO_UTF_CHECK, match.get(), nullptr) > 0;) {
    const size_t* range = pcre2_get_ovector_pointer(match.get());
    newer[decode_char(known.data() + range[0], known.data() + known.size()).code] = true;
    from = range[1];
  }
  return newer;
}

}  // namespace

struct SplitPattern::State {
  std::vector<Code> stages;
  std::vector<std::string> expressions;
  const std::vector<bool>* newer = nullptr;  // by code point

  // What stands for the character in the subject; 0 for itself.
  uint32_t stand_in(DecodedChar c, char byte) const {
    if (c.code == kInvalidChar) return kInvalidByteBase + static_cast<uint8_t>(byte);
    if (c.code < 0x80 || !(*newer)[c.code]) return 0;
    for (const Representative& row : kRepresentatives) {
      if (row.cls == CharClasses::get().of(c.code)) return row.code;
    }
    return 0;
  }
};

SplitPattern::SplitPattern() : state_(std::make_unique<State>()) {}
SplitPattern::~SplitPattern() = default;

Result<std::unique_ptr<SplitPattern>> SplitPattern::compile(std::span<const std::string> expressions,
                                                            std::span<const ExpressionDialect> dialects) {
  INGOT_CHECK(expressions.size() == dialects.size(), "{} expressions, {} dialects", expressions.size(),
              dialects.size());
  std::unique_ptr<SplitPattern> result(new SplitPattern);
  static const Result<std::vector<bool>> newer = newer_than_pcre2();  // constant, and slow to find
  if (!newer) return newer.error();
  result->state_->newer = &newer.value();
  for (size_t i = 0; i < expressions.size(); ++i) {
    INGOT_TRY(Code code, compile_one(expressions[i], dialects[i]));
    result->state_->stages.push_back(std::move(code));
    result->state_->expressions.push_back(expressions[i]);
  }
  return result;
}

struct SplitMatcher::State {
  const SplitPattern::State& pattern;
  std::unique_ptr<pcre2_match_data, MatchDataFree> match_data;
  std::unique_ptr<pcre2_match_context, MatchContextFree> context;
  std::unique_ptr<pcre2_jit_stack, JitStackFree> stack;
  std::string copy;  // of a text with bytes or characters that PCRE2 cannot take, others in their place
  struct StandIn {
    size_t at;     // in `copy`
    size_t added;  // how much longer `copy` is than the text up to and with this one
  };
  std::vector<StandIn> stand_ins;
  std::vector<size_t> pieces;

  // Appends the ends of the pieces that one expression makes of subject[begin, end).
  Result<void> split_piece(size_t stage, std::string_view subject, size_t begin, size_t end,
                           std::vector<size_t>& ends);
  std::string_view valid_text(std::string_view text);
  void map_to_original(std::vector<size_t>& ends) const;
};

SplitMatcher::SplitMatcher(const SplitPattern& pattern)
    : state_(new State{*pattern.state_, nullptr, nullptr, nullptr, {}, {}, {}}) {
  state_->match_data.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  state_->stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr));
  INGOT_CHECK(state_->match_data && state_->context, "PCRE2 gave no memory");
  if (state_->stack) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}
SplitMatcher::~SplitMatcher() = default;

std::string_view SplitMatcher::State::valid_text(std::string_view text) {
  stand_ins.clear();
  const char* const end = text.data() + text.size();
  const char* copied = text.data();
  for (const char* p = text.data(); p < end;) {
    const DecodedChar c = decode_char(p, end);
    if (const uint32_t code = pattern.stand_in(c, *p)) {
      if (stand_ins.empty()) copy.clear();
      copy.append(copied, p);
      const size_t added = stand_ins.empty() ? 0 : stand_ins.back().added;
      stand_ins.push_back({copy.size(), added + kStandInBytes - c.bytes});
      char bytes[kStandInBytes];
      copy.append(bytes, encode_char(code, bytes));
      copied = p + c.bytes;
    }
    p += c.bytes;
  }
  if (stand_ins.empty()) return text;
  copy.append(copied, end);
  return copy;
}

void SplitMatcher::State::map_to_original(std::vector<size_t>& ends) const {
  size_t passed = 0;
  for (size_t& end : ends) {
    while (passed < stand_ins.size() && stand_ins[passed].at < end) ++passed;
    if (passed > 0) end -= stand_ins[passed - 1].added;
  }
}

Result<void> SplitMatcher::State::split_piece(size_t stage, std::string_view subject, size_t begin,
                                              size_t end, std::vector<size_t>& ends) {
  const char* const piece = subject.data() + begin;
  const size_t bytes = end - begin;
  size_t cut = 0;  // ends of pieces are known up to here
  for (size_t from = 0; from < bytes;) {
    const int found = pcre2_match(pattern.stages[stage].get(), as_pcre2(piece), bytes, from,
                                  PCRE2_NO_UTF_CHECK, match_data.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return invalid(
          fmt::format("the pattern '{}' failed {} bytes into a text of {}: {}; a pattern with less "
                      "backtracking, or shorter documents, would work",
                      pattern.expressions[stage], begin + from, subject.size(), pcre2_message(found)));
    }
    const size_t* range = pcre2_get_ovector_pointer(match_data.get());
    if (range[1] <= range[0]) {
      from = range[0] < bytes ? range[0] + decode_char(piece + range[0], piece + bytes).bytes : bytes;
      continue;
    }
    if (range[0] > cut) ends.push_back(begin + range[0]);
    ends.push_back(begin + range[1]);
    cut = from = range[1];
  }
  if (cut < bytes) ends.push_back(end);
  return {};
}

Result<void> SplitMatcher::split(std::string_view text, std::vector<size_t>& ends) {
  ends.clear();
  if (text.empty()) return {};
  const std::string_view subject = state_->valid_text(text);
  ends.push_back(subject.size());
  for (size_t stage = 0; stage < state_->pattern.stages.size(); ++stage) {
    state_->pieces.swap(ends);
    ends.clear();
    size_t begin = 0;
    for (const size_t end : state_->pieces) {
      INGOT_TRY_VOID(state_->split_piece(stage, subject, begin, end, ends));
      begin = end;
    }
  }
  state_->map_to_original(ends);
  return {};
}

}  // namespace ingot::data
