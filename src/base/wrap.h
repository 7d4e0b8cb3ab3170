#pragma once
// Text for a screen of so many columns.

#include <cstddef>
#include <string>
#include <string_view>

namespace ingot {

// Whether a byte goes on with a UTF-8 character that began before it.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Columns on a terminal: UTF-8 characters, each taken as one wide.
size_t columns(std::string_view text);

// Text cut at spaces into lines that end within `width` columns. Every line begins `indent` columns in: the
// first behind what stands there already, the others behind spaces. A longer word (a path) stays whole.
std::string wrapped(std::string_view text, size_t width, size_t indent);

}  // namespace ingot
