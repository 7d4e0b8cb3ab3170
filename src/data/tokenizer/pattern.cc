#include "data/tokenizer/pattern.h"

#include <array>

#include "base/check.h"

namespace ingot::data {
namespace {

#define INGOT_SPACE R"(\p{White_Space})"
#define INGOT_NOT_SPACE R"(\P{White_Space})"
#define INGOT_O200K_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define INGOT_O200K_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define INGOT_CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define INGOT_O200K_WORDS                                                               \
  R"([^\r\n\p{L}\p{N}]?)" INGOT_O200K_UPPER "*" INGOT_O200K_LOWER "+" INGOT_CONTRACTION \
  "?|"                                                                                  \
  R"([^\r\n\p{L}\p{N}]?)" INGOT_O200K_UPPER "+" INGOT_O200K_LOWER "*" INGOT_CONTRACTION "?|"
#define INGOT_PCRE2_TAIL "|" INGOT_SPACE "+(?!" INGOT_NOT_SPACE ")|" INGOT_SPACE "+"

constexpr std::array<PatternRow, 5> kPatterns = {{
    {Pattern::kGpt2, "gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" INGOT_SPACE R"(\p{L}\p{N}]+)" INGOT_PCRE2_TAIL},
    // Without possessive counts, which Oniguruma reads as repeated groups; \z because its $ is an end of
    // line.
    {Pattern::kCl100k, "cl100k",
     INGOT_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                       R"(|\s+\z|\s*[\r\n]|\s+(?!\S)|\s)",
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^)" INGOT_SPACE
     R"(\p{L}\p{N}]++[\r\n]*+|)" INGOT_SPACE "++$|" INGOT_SPACE R"(*[\r\n]|)" INGOT_SPACE
     "+(?!" INGOT_NOT_SPACE ")|" INGOT_SPACE},
    {Pattern::kLlama3, "llama3",
     INGOT_CONTRACTION
     R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     INGOT_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^)" INGOT_SPACE
                       R"(\p{L}\p{N}]+[\r\n]*|)" INGOT_SPACE R"(*[\r\n]+)" INGOT_PCRE2_TAIL},
    {Pattern::kQwen2, "qwen2",
     INGOT_CONTRACTION
     R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     INGOT_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^)" INGOT_SPACE
                       R"(\p{L}\p{N}]+[\r\n]*|)" INGOT_SPACE R"(*[\r\n]+)" INGOT_PCRE2_TAIL},
    {Pattern::kO200k, "o200k",
     INGOT_O200K_WORDS R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     INGOT_O200K_WORDS R"(\p{N}{1,3}| ?[^)" INGOT_SPACE R"(\p{L}\p{N}]+[\r\n/]*|)" INGOT_SPACE
                       R"(*[\r\n]+)" INGOT_PCRE2_TAIL},
}};

struct Alias {
  std::string_view text;
  Pattern pattern;
};
constexpr std::array<Alias, 9> kNameAliases = {{{"r50k", Pattern::kGpt2},
                                                {"p50k", Pattern::kGpt2},
                                                {"r50k_base", Pattern::kGpt2},
                                                {"p50k_base", Pattern::kGpt2},
                                                {"p50k_edit", Pattern::kGpt2},
                                                {"cl100k_base", Pattern::kCl100k},
                                                {"o200k_base", Pattern::kO200k},
                                                {"o200k_harmony", Pattern::kO200k},
                                                {"qwen3", Pattern::kQwen2}}};

}  // namespace

std::span<const PatternRow> patterns() { return kPatterns; }

const PatternRow& pattern_row(Pattern pattern) {
  for (const PatternRow& row : kPatterns) {
    if (row.pattern == pattern) return row;
  }
  INGOT_CHECK(false, "pattern {} has no row", static_cast<int>(pattern));
  return kPatterns[0];
}

std::optional<Pattern> pattern_by_name(std::string_view name) {
  for (const PatternRow& row : kPatterns) {
    if (row.name == name) return row.pattern;
  }
  for (const Alias& alias : kNameAliases) {
    if (alias.text == name) return alias.pattern;
  }
  return std::nullopt;
}

std::optional<Pattern> pattern_by_expression(std::string_view expression) {
  for (const PatternRow& row : kPatterns) {
    if (row.expression == expression) return row.pattern;
  }
  return std::nullopt;
}

}  // namespace ingot::data
