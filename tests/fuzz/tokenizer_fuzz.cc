// Tokenizer files of any bytes end in a tokenizer or a message; what was accepted gives every text back and
// survives being written. The first byte chooses: files of either kind, or text for the scanners against
// PCRE2.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/scanner.h"
#include "data/tokenizer/split_pattern.h"
#include "data/tokenizer/tokenizer.h"

namespace {

using ingot::data::Pattern;

void check_tokenizer(const ingot::data::Tokenizer& tokenizer, std::string_view text) {
  const std::string json = tokenizer.to_hugging_face_json();
  const auto again = ingot::data::parse_hugging_face_json(json, "written");
  INGOT_CHECK(again.has_value(), "a written tokenizer is refused: {}", again.error().message);
  std::vector<int32_t> ids, ids_again;
  const auto encoded = tokenizer.encoder()->encode(text, ids);
  if (!encoded) return;  // a pattern that needs too many steps, or a character that is not there
  const auto encoded_again = (*again)->encoder()->encode(text, ids_again);
  INGOT_CHECK(encoded_again.has_value() && ids == ids_again, "a written tokenizer gives other ids");
  bool normalizes = false;
  for (const auto& [key, value] : tokenizer.description())
    normalizes |= key == "normalizer" && value != "none";
  INGOT_CHECK(normalizes || tokenizer.decode(ids) == text, "decode(encode(x)) is not x");
}

std::unique_ptr<ingot::data::SplitPattern> oracle(Pattern pattern) {
  const std::vector<std::string> expressions{std::string(ingot::data::pattern_row(pattern).pcre2)};
  const std::vector<ingot::data::ExpressionDialect> dialects{ingot::data::ExpressionDialect::kPcre2};
  return ingot::data::SplitPattern::compile(expressions, dialects).value();
}

void check_scanner(Pattern pattern, std::string_view text) {
  static std::map<Pattern, std::unique_ptr<ingot::data::SplitPattern>> oracles;
  if (!oracles[pattern]) oracles[pattern] = oracle(pattern);
  ingot::data::SplitMatcher matcher(*oracles[pattern]);
  std::vector<size_t> expected;
  if (!matcher.split(text, expected)) return;
  std::vector<const char*> ends(text.size() + 1);
  const char* const begin = text.data();
  const size_t count = scan_function(pattern)(begin, begin + text.size(), ends.data(), ends.size());
  INGOT_CHECK(count == expected.size(), "{} pieces, PCRE2 finds {}", count, expected.size());
  for (size_t i = 0; i < count; ++i) {
    INGOT_CHECK(ends[i] == begin + expected[i], "piece {} ends at {}, PCRE2's at {}", i, ends[i] - begin,
                expected[i]);
  }
}

// All bytes as ranks, so that what the fuzzer adds is a whole vocabulary.
std::string all_bytes_and(std::string_view more) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string file;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    file += kAlphabet[byte >> 2];
    file += kAlphabet[(byte & 3) << 4];
    file += "== " + std::to_string(byte) + "\n";
  }
  return file.append(more);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto patterns = ingot::data::patterns();
  const Pattern pattern = patterns[data[0] % patterns.size()].pattern;
  const std::string_view text = rest.substr(rest.size() / 2);
  // A tokenizer.json begins with a brace, so that seeds are files as they are.
  if (data[0] == '{') {
    const std::string_view json(reinterpret_cast<const char*>(data), size);
    const auto tokenizer = ingot::data::parse_hugging_face_json(json, "fuzz");
    if (tokenizer) check_tokenizer(**tokenizer, text);
  } else if (data[0] >= 'A' && data[0] <= 'Z') {  // base64: a .tiktoken file
    const std::string file = all_bytes_and({reinterpret_cast<const char*>(data), size});
    const auto tokenizer = ingot::data::parse_tiktoken(file, "llama3", "fuzz");
    if (tokenizer) check_tokenizer(**tokenizer, text);
  } else {
    check_scanner(pattern, rest);
  }
  return 0;
}
