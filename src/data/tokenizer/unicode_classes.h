#pragma once
// Strict UTF-8 and the classes of Unicode characters that pre-tokenization patterns ask for. Not a general
// Unicode library. The table is made by tools/golden/unicode_tables.py; a new version of Unicode is a new run
// of it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ingot::data {

// Bits of a character's class; 0 for controls, unassigned code points and private use.
enum CharClass : uint8_t {
  kLetter = 1,      // \p{L}
  kNumber = 2,      // \p{N}
  kSpace = 4,       // \p{White_Space}, which is \s of the reference implementations
  kUpperLike = 8,   // \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}
  kLowerLike = 16,  // \p{Ll}\p{Lm}\p{Lo}\p{M}
  kNewline = 32,    // \r \n
  kMark = 64,       // \p{M}
  kSymbol = 128,    // \p{P}\p{S}
};

// Generated: first code point of a range << 8 | class, ascending; a range ends where the next begins.
extern const char* const kUnicodeVersion;
extern const uint32_t kClassRanges[];
extern const size_t kClassRangeCount;

// Two stages: a page of 256 code points points to a leaf of classes; equal pages share a leaf.
class CharClasses {
 public:
  static const CharClasses& get();  // built at the first call, then constant
  uint8_t of(uint32_t code) const { return leaves_[size_t{pages_[code >> 8]} << 8 | (code & 0xff)]; }
  uint8_t of_ascii(uint8_t byte) const { return ascii_[byte]; }  // 0 from 0x80 on

 private:
  CharClasses();
  std::array<uint8_t, 256> ascii_{};
  std::array<uint16_t, 0x1100> pages_{};
  std::vector<uint8_t> leaves_;
};

constexpr uint32_t kInvalidChar = 0xffffffff;

struct DecodedChar {
  uint32_t code = kInvalidChar;  // kInvalidChar: no well-formed character begins here, and bytes is 1
  uint32_t bytes = 1;
};

// The character at p < end by the rules of RFC 3629: no overlong forms, surrogates, or code points over
// U+10FFFF.
inline DecodedChar decode_char(const char* p, const char* end) {
  const auto byte = [p](int i) { return uint32_t{static_cast<uint8_t>(p[i])}; };
  const auto continues = [&](int i) { return (byte(i) & 0xc0) == 0x80; };
  const uint32_t first = byte(0);
  const ptrdiff_t left = end - p;
  if (first < 0x80) return {first, 1};
  if (first >= 0xe0 && first < 0xf0) {
    if (left < 3 || !continues(1) || !continues(2)) return {};
    const uint32_t code = (first & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63);
    if (code < 0x800 || (code >= 0xd800 && code < 0xe000)) return {};
    return {code, 3};
  }
  if (first >= 0xc2 && first < 0xe0) {
    if (left < 2 || !continues(1)) return {};
    return {(first & 31) << 6 | (byte(1) & 63), 2};
  }
  if (first >= 0xf0 && first < 0xf5) {
    if (left < 4 || !continues(1) || !continues(2) || !continues(3)) return {};
    const uint32_t code = (first & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63);
    if (code < 0x10000 || code > 0x10ffff) return {};
    return {code, 4};
  }
  return {};
}

// Writes the UTF-8 of a code point below 0x110000 to out[4]; returns its length.
inline size_t encode_char(uint32_t code, char* out) {
  const auto put = [out](size_t i, uint32_t value) {
    out[i] = static_cast<char>(static_cast<uint8_t>(value));
  };
  if (code < 0x80) {
    put(0, code);
    return 1;
  }
  if (code < 0x800) {
    put(0, 0xc0 | code >> 6);
    put(1, 0x80 | (code & 63));
    return 2;
  }
  if (code < 0x10000) {
    put(0, 0xe0 | code >> 12);
    put(1, 0x80 | (code >> 6 & 63));
    put(2, 0x80 | (code & 63));
    return 3;
  }
  put(0, 0xf0 | code >> 18);
  put(1, 0x80 | (code >> 12 & 63));
  put(2, 0x80 | (code >> 6 & 63));
  put(3, 0x80 | (code & 63));
  return 4;
}

}  // namespace ingot::data
