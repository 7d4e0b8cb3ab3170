#include "data/tokenizer/scanner.h"

#include <bit>
#include <cstdint>

#include "base/check.h"
#include "data/tokenizer/unicode_classes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ingot::data {
namespace {

uint8_t byte_at(const char* p) { return static_cast<uint8_t>(*p); }

// Bit i is set when byte i of the 16 at p is not in [first, first + 25]; `fold` is OR-ed into each byte
// first.
#if defined(__SSE2__)
constexpr bool kHasBlocks = true;
inline uint32_t outside_alphabet(const char* p, char first, char fold) {
  const __m128i bytes =
      _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(fold));
  // Moves [first, first + 25] to the lowest signed values, so that one signed comparison is enough.
  const __m128i moved = _mm_sub_epi8(bytes, _mm_set1_epi8(static_cast<char>(first + 128)));
  const __m128i above = _mm_cmpgt_epi8(moved, _mm_set1_epi8(static_cast<char>(-128 + 25)));
  return static_cast<uint32_t>(_mm_movemask_epi8(above));
}
#else
constexpr bool kHasBlocks = false;
inline uint32_t outside_alphabet(const char*, char, char) { return 1; }
#endif

// One piece after another of one pattern. Notation in comments: L letter, N number, S whitespace, R \r or \n.
template <Pattern kPattern>
class Scanner {
 public:
  explicit Scanner(const char* end) : end_(end), classes_(CharClasses::get()) {}

  // The end of the piece that begins at p < end.
  const char* next(const char* p) const {
    if constexpr (kPattern == Pattern::kGpt2) {
      return next_gpt2(p);
    } else if constexpr (kPattern == Pattern::kO200k) {
      return next_o200k(p);
    } else {
      return next_cl100k(p);
    }
  }

 private:
  struct Char {
    uint8_t cls;
    uint32_t bytes;
  };

  Char char_at(const char* p) const {
    const uint8_t byte = byte_at(p);
    if (byte < 0x80) [[likely]]
      return {classes_.of_ascii(byte), 1};
    return wide_char_at(p);
  }
  Char wide_char_at(const char* p) const {
    const DecodedChar c = decode_char(p, end_);
    return {c.code == kInvalidChar ? uint8_t{0} : classes_.of(c.code), c.bytes};
  }

  // The end of the run of ASCII letters at p: `fold` 0x20 takes both cases, 0 those of `first`'s case.
  const char* ascii_run(const char* p, char first, char fold) const {
    if constexpr (kHasBlocks) {
      while (end_ - p >= 16) {
        const uint32_t outside = outside_alphabet(p, first, fold);
        if (outside != 0) return p + std::countr_zero(outside);
        p += 16;
      }
    }
    while (p < end_ && static_cast<uint8_t>((*p | fold) - first) < 26) ++p;
    return p;
  }

  // The end of the run of L at p.
  const char* letters(const char* p) const {
    for (;;) {
      p = ascii_run(p, 'a', 0x20);
      if (p == end_ || byte_at(p) < 0x80) return p;
      while (p < end_ && byte_at(p) >= 0x80) {
        const Char c = wide_char_at(p);
        if (!(c.cls & kLetter)) return p;
        p += c.bytes;
      }
    }
  }

  // The end of the run at p of characters with any (kWith) or none (!kWith) of the bits.
  template <bool kWith>
  const char* run(const char* p, uint8_t bits) const {
    while (p < end_) {
      const Char c = char_at(p);
      if (((c.cls & bits) != 0) != kWith) break;
      p += c.bytes;
    }
    return p;
  }

  // Length of 's 't 'm 'd 're 've 'll at p, which holds the quote; 0 for none. Folded, U+017F is an s.
  template <bool kFolded>
  ptrdiff_t contraction(const char* p) const {
    if (end_ - p < 2) return 0;
    const auto fold = [](uint8_t c) {
      return kFolded && c >= 'A' && c <= 'Z' ? static_cast<uint8_t>(c | 32) : c;
    };
    const uint8_t a = fold(byte_at(p + 1));
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end_ - p < 3) return 0;
    if (kFolded && a == 0xc5 && byte_at(p + 2) == 0xbf) return 3;
    const uint8_t b = fold(byte_at(p + 2));
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
  }

  // Whitespace begins at p. A run gives its last character back to what follows; one with a newline ends
  // there.
  const char* whitespace(const char* p) const {
    const char* q = p;
    const char* last = p;
    const char* after_newline = nullptr;
    while (q < end_) {
      const Char c = char_at(q);
      if (!(c.cls & kSpace)) break;
      last = q;
      q += c.bytes;
      if (c.cls & kNewline) after_newline = q;
    }
    if (kPattern == Pattern::kCl100k && q == end_) return q;
    if (kPattern != Pattern::kGpt2 && after_newline != nullptr) return after_newline;
    return q == end_ || last == p ? q : last;
  }

  const char* next_gpt2(const char* p) const {
    const char* body = p;
    if (*p == ' ' && p + 1 < end_) {
      body = p + 1;
    } else if (*p == '\'') {
      if (const ptrdiff_t bytes = contraction<false>(p)) return p + bytes;
    }
    const Char c = char_at(body);
    if (c.cls & kLetter) return letters(body + c.bytes);
    if (c.cls & kSpace) return whitespace(p);
    if (c.cls & kNumber) return run<true>(body + c.bytes, kNumber);
    return run<false>(body + c.bytes, kSpace | kLetter | kNumber);
  }

  // The patterns that share cl100k's shape.
  const char* next_cl100k(const char* p) const {
    if (*p == '\'') {
      if (const ptrdiff_t bytes = contraction<true>(p)) return p + bytes;
    }
    const Char c = char_at(p);
    if (c.cls & kLetter) return letters(p + c.bytes);
    if (!(c.cls & (kNewline | kNumber)) && p + c.bytes < end_) {
      const Char after = char_at(p + c.bytes);
      if (after.cls & kLetter) return letters(p + c.bytes + after.bytes);
    }
    return next_not_a_word(p, c);
  }

  const char* next_not_a_word(const char* p, Char c) const {
    if (c.cls & kNumber) return numbers(p + c.bytes);
    const char* body = p + c.bytes;
    if (*p == ' ' && body < end_) {
      c = char_at(body);
      body += c.bytes;
    }
    if (c.cls & (kSpace | kLetter | kNumber)) return whitespace(p);
    const char* q = run<false>(body, kSpace | kLetter | kNumber);
    while (q < end_ && (*q == '\r' || *q == '\n' || (kPattern == Pattern::kO200k && *q == '/'))) ++q;
    return q;
  }

  // After the first N: up to two more, or none for qwen2.
  const char* numbers(const char* p) const {
    if constexpr (kPattern == Pattern::kQwen2) return p;
    for (int more = 0; more < 2 && p < end_; ++more) {
      const Char c = char_at(p);
      if (!(c.cls & kNumber)) break;
      p += c.bytes;
    }
    return p;
  }

  const char* next_o200k(const char* p) const {
    const Char c = char_at(p);
    const bool may_lead = !(c.cls & (kNewline | kLetter | kNumber));
    const char* word = nullptr;
    if (may_lead || (c.cls & kLetter)) word = o200k_word(p, c, may_lead);
    if (word == nullptr) return next_not_a_word(p, c);
    if (word < end_ && *word == '\'') word += contraction<true>(word);
    return word;
  }

  // The end of an o200k word at p, or null. Alternatives in the order of the pattern: upper* lower+, then
  // upper+ lower*, each with a leading character and then without it (only a mark can be either).
  const char* o200k_word(const char* p, Char c, bool may_lead) const {
    const char* start = may_lead ? p + c.bytes : p;
    if (start < end_ && (byte_at(p) | byte_at(start)) < 0x80) {
      const char* upper = ascii_run(start, 'A', 0);
      const char* lower = ascii_run(upper, 'a', 0);
      // A wide character next may belong to either run: only an ASCII one settles the word here.
      if (lower == end_ || byte_at(lower) < 0x80) return lower == start ? nullptr : lower;
    }
    const bool mark_leads = may_lead && (c.cls & kMark);
    const char* word = upper_lower(start);
    if (word == nullptr && mark_leads) word = upper_lower(p);
    if (word == nullptr) word = upper_only(start);
    if (word == nullptr && mark_leads) word = upper_only(p);
    return word;
  }
  const char* upper_lower(const char* p) const {
    const char* last_lower = nullptr;  // where backtracking out of the run of upper-like characters stops
    while (p < end_) {
      const Char c = char_at(p);
      if (!(c.cls & kUpperLike)) break;
      p += c.bytes;
      if (c.cls & kLowerLike) last_lower = p;
    }
    const char* lower = run<true>(p, kLowerLike);
    return lower != p ? lower : last_lower;
  }
  const char* upper_only(const char* p) const {
    const char* upper = run<true>(p, kUpperLike);
    return upper == p ? nullptr : run<true>(upper, kLowerLike);
  }

  const char* end_;
  const CharClasses& classes_;
};

constexpr ptrdiff_t kBlockBytes = 64;

#if defined(__SSE2__)

// Bit i speaks of byte i of a block. Each byte is in one set at most; in none it is another sign.
struct BlockSets {
  uint64_t letters = 0;
  uint64_t digits = 0;
  uint64_t spaces = 0;
  uint64_t unsettled = 0;  // controls, quotes, and bytes of wide characters
};

BlockSets block_sets(const char* p) {
  BlockSets sets;
  for (int part = 0; part < 4; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * part));
    const auto bits = [part](__m128i yes) {
      return uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(yes))} << (16 * part);
    };
    const auto among = [](__m128i of, char first, int count) {
      const __m128i moved = _mm_sub_epi8(of, _mm_set1_epi8(static_cast<char>(first + 128)));
      return _mm_cmpgt_epi8(_mm_set1_epi8(static_cast<char>(-128 + count)), moved);
    };
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    const __m128i low = _mm_cmpgt_epi8(_mm_set1_epi8(0x20), bytes);  // signed: wide characters too
    sets.letters |= bits(among(folded, 'a', 26));
    sets.digits |= bits(among(bytes, '0', 10));
    sets.spaces |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')));
    sets.unsettled |= bits(_mm_or_si128(low, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\''))));
  }
  return sets;
}

// Pieces of GPT-2's pattern in the block at p, which begins one, as long as each character and the one before
// it settle where they end; returns how many, 0 when not even the first is settled. Runs of spaces are not.
size_t scan_gpt2_block(const char* p, const char** ends) {
  const BlockSets sets = block_sets(p);
  const uint64_t letters = sets.letters, digits = sets.digits, spaces = sets.spaces;
  const uint64_t others = ~(letters | digits | spaces | sets.unsettled);
  const uint64_t change = (letters ^ letters << 1) | (digits ^ digits << 1) | (others ^ others << 1);
  uint64_t starts = (spaces | (change & ~(spaces << 1))) & ~uint64_t{1};
  const uint64_t unsettled = sets.unsettled | (spaces & (spaces >> 1 | uint64_t{1} << 63));
  starts &= unsettled == 0 ? ~uint64_t{0} : (unsettled & (~unsettled + 1)) - 1;
  size_t count = 0;
  for (; starts != 0; starts &= starts - 1) ends[count++] = p + std::countr_zero(starts);
  return count;
}

#else
size_t scan_gpt2_block(const char*, const char**) { return 0; }
#endif

template <Pattern kPattern>
size_t scan(const char* begin, const char* end, const char** ends, size_t max) {
  const Scanner<kPattern> scanner(end);
  size_t count = 0;
  for (const char* p = begin; p < end && count < max; p = ends[count - 1]) {
    if constexpr (kHasBlocks && kPattern == Pattern::kGpt2) {
      if (end - p >= kBlockBytes) {
        if (count > 0 && max - count < size_t{kBlockBytes}) break;
        const size_t found = max < size_t{kBlockBytes} ? 0 : scan_gpt2_block(p, ends + count);
        count += found;
        if (found > 0) continue;
      }
    }
    ends[count++] = scanner.next(p);
  }
  return count;
}

}  // namespace

ScanFunction scan_function(Pattern pattern) {
  switch (pattern) {
    case Pattern::kGpt2:
      return scan<Pattern::kGpt2>;
    case Pattern::kCl100k:
      return scan<Pattern::kCl100k>;
    case Pattern::kLlama3:
      return scan<Pattern::kLlama3>;
    case Pattern::kQwen2:
      return scan<Pattern::kQwen2>;
    case Pattern::kO200k:
      return scan<Pattern::kO200k>;
  }
  INGOT_CHECK(false, "no scanner for pattern {}", static_cast<int>(pattern));
  return nullptr;
}

}  // namespace ingot::data
