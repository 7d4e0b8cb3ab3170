// .tiktoken files: lines of base64 of a token's bytes, a space, and its rank, which is its id and its
// priority.

#include <array>
#include <charconv>
#include <string>
#include <unordered_map>

#include "data/tokenizer/bpe_encoder.h"
#include "data/tokenizer/bpe_tokenizer.h"

namespace ingot::data {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool decode_base64(std::string_view text, std::string& bytes) {
  bytes.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  size_t padding = 0;
  while (padding < 2 && text[text.size() - 1 - padding] == '=') ++padding;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(static_cast<uint8_t>(bits >> held));
  }
  return (bits & ((1u << held) - 1)) == 0;
}

// The special tokens that tiktoken's own code gives to OpenAI's files, known by pattern and number of ranks.
struct OfficialSpecials {
  Pattern pattern;
  size_t ranks;
  std::vector<AddedToken> tokens;
};

std::vector<AddedToken> special_tokens(Pattern pattern, size_t ranks) {
  const std::array<OfficialSpecials, 2> official = {
      {{Pattern::kCl100k,
        100256,
        {{100257, "<|endoftext|>"},
         {100258, "<|fim_prefix|>"},
         {100259, "<|fim_middle|>"},
         {100260, "<|fim_suffix|>"},
         {100276, "<|endofprompt|>"}}},
       {Pattern::kO200k, 199998, {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}}}}};
  for (const OfficialSpecials& row : official) {
    if (row.pattern == pattern && row.ranks == ranks) return row.tokens;
  }
  return {{static_cast<uint32_t>(ranks), "<|endoftext|>"}};  // as GPT-2 has it: the first free id
}

Error bad_line(const std::string& place, size_t line, const std::string& what) {
  return corrupt(
      fmt::format("{}, line {}: {}; the file is damaged or is not a .tiktoken file", place, line, what));
}

struct Line {
  std::string bytes;
  uint32_t rank = 0;
};

Result<Line> parse_line(std::string_view text, const std::string& place, size_t number) {
  Line line;
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return bad_line(place, number, "there is no rank after the token");
  if (!decode_base64(text.substr(0, space), line.bytes)) {
    return bad_line(place, number,
                    fmt::format("'{}' is not base64", text.substr(0, std::min<size_t>(space, 40))));
  }
  const char* const begin = text.data() + space + 1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, line.rank);
  if (error != std::errc() || stop != end) {
    return bad_line(place, number,
                    fmt::format("'{}' is not a rank", std::string_view(begin, end).substr(0, 40)));
  }
  if (line.rank >= PairTable::kMaxSymbols) {
    return bad_line(place, number,
                    fmt::format("rank {} is over the limit of {}", line.rank, PairTable::kMaxSymbols - 1));
  }
  return line;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> parse_tiktoken(std::string_view file, std::string_view pattern,
                                                  const std::string& place) {
  BpeDefinition definition;
  definition.pattern = pattern_by_name(pattern);
  if (!definition.pattern) {
    std::string known;
    for (const PatternRow& row : patterns())
      known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    return invalid(
        fmt::format("{}: '{}' is not a pattern; a .tiktoken file needs one of {}", place, pattern, known));
  }
  std::unordered_map<std::string, size_t> line_of;
  size_t number = 0;
  while (!file.empty()) {
    const size_t newline = file.find('\n');
    std::string_view text = file.substr(0, newline);
    file.remove_prefix(newline == std::string_view::npos ? file.size() : newline + 1);
    ++number;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (text.empty()) continue;
    INGOT_TRY(Line line, parse_line(text, place, number));
    const auto [first, is_new] = line_of.try_emplace(line.bytes, number);
    if (!is_new) return bad_line(place, number, fmt::format("the token is also on line {}", first->second));
    if (definition.tokens.size() <= line.rank) definition.tokens.resize(line.rank + 1);
    if (!definition.tokens[line.rank].empty()) {
      return bad_line(place, number, fmt::format("rank {} is given twice", line.rank));
    }
    definition.tokens[line.rank] = std::move(line.bytes);
  }
  if (definition.tokens.empty()) return corrupt(fmt::format("{}: the file is empty", place));
  std::vector<uint8_t> missing;
  const auto byte_ids = BpeModel::byte_ids(definition.tokens, missing);
  if (missing.empty()) definition.merges = split_ranks(definition.tokens, byte_ids);
  definition.whole_pieces = true;
  definition.added = special_tokens(*definition.pattern, definition.tokens.size());
  definition.end_of_text = static_cast<int32_t>(definition.added[0].id);
  return make_bpe_tokenizer(std::move(definition)).context(place);
}

}  // namespace ingot::data
