#include "data/text_cut.h"

#include <array>
#include <cstdint>

namespace ingot::data {
namespace {

struct CodeRange {
  uint32_t first, last;
};
// Letters in every Unicode version since 6; all are of the classes that the patterns call \p{L}.
constexpr std::array<CodeRange, 14> kLetters = {{{'A', 'Z'},
                                                 {'a', 'z'},
                                                 {0xC0, 0xD6},
                                                 {0xD8, 0xF6},
                                                 {0xF8, 0x24F},
                                                 {0x391, 0x3A1},
                                                 {0x3A3, 0x3F5},
                                                 {0x400, 0x481},
                                                 {0x5D0, 0x5EA},
                                                 {0x620, 0x63F},
                                                 {0x3041, 0x3096},
                                                 {0x30A1, 0x30FA},
                                                 {0x3400, 0x4DB5},
                                                 {0x4E00, 0x9FBB}}};
constexpr CodeRange kHangul = {0xAC00, 0xD7A3};

bool is_letter(uint32_t code) {
  for (const CodeRange& range : kLetters) {
    if (code >= range.first && code <= range.last) return true;
  }
  return code >= kHangul.first && code <= kHangul.last;
}

bool is_whitespace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

uint32_t byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

// The code point that ends at `end`, 0 when the bytes there are not well-formed UTF-8 of one to three bytes.
uint32_t code_before(std::string_view text, size_t end) {
  const uint32_t last = byte_at(text, end - 1);
  if (last < 0x80) return last;
  if ((last & 0xC0) != 0x80 || end < 2) return 0;
  const uint32_t second = byte_at(text, end - 2);
  if (second >= 0xC2 && second <= 0xDF) return (second & 0x1F) << 6 | (last & 0x3F);
  if ((second & 0xC0) != 0x80 || end < 3) return 0;
  const uint32_t first = byte_at(text, end - 3);
  if ((first & 0xF0) != 0xE0) return 0;
  const uint32_t code = (first & 0x0F) << 12 | (second & 0x3F) << 6 | (last & 0x3F);
  return code >= 0x800 ? code : 0;
}

}  // namespace

size_t last_safe_cut(std::string_view text) {
  for (size_t p = text.size(); p-- > 1;) {
    if (is_whitespace(text[p]) && is_letter(code_before(text, p))) return p;
  }
  return 0;
}

}  // namespace ingot::data
