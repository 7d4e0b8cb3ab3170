#pragma once
// Where a document may be cut so that encoding the parts gives the ids of the whole: between a letter and
// whitespace. No pattern of ours reads back past the start of a match, and none lets a match run from a
// letter into whitespace; every other kind of place fails for some pattern (a newline after punctuation, a
// run of newlines, digits).

#include <cstddef>
#include <string_view>

namespace ingot::data {

// The last place p in (0, text.size()) with a letter just before and ASCII whitespace at p, so that text[0,
// p) may be encoded apart; 0 when there is none. Letters are those of a conservative list of ranges (Latin,
// Greek, Cyrillic, Hebrew, Arabic, kana, CJK ideographs, Hangul): a letter outside it only moves the cut.
size_t last_safe_cut(std::string_view text);

}  // namespace ingot::data
