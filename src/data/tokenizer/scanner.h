#pragma once
// Cuts text into the pieces of the known patterns (pattern.h), several hundred MB/s a core. Every byte
// belongs to one piece. An invalid UTF-8 byte is a character of no class. Tested against PCRE2; any other
// pattern: split_pattern.h.

#include <cstddef>

#include "data/tokenizer/pattern.h"

namespace ingot::data {

// Writes the ends of the next pieces of [begin, end) to `ends`, at most `max` of them, and returns how many,
// fewer when text is left but hardly room for more; the first piece begins at `begin`. `begin` must be the
// start of the text or the end of a piece of it. Reads nothing outside [begin, end).
using ScanFunction = size_t (*)(const char* begin, const char* end, const char** ends, size_t max);

ScanFunction scan_function(Pattern pattern);

}  // namespace ingot::data
