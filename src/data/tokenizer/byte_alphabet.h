#pragma once
// GPT-2's byte alphabet: how vocabularies of byte-level BPE spell bytes as printable characters. 0x21-0x7E,
// 0xA1-0xAC and 0xAE-0xFF stand for themselves; the other 68 bytes, in order, are U+0100 and on (space is
// U+0120).

#include <optional>
#include <string>
#include <string_view>

namespace ingot::data {

std::string to_byte_alphabet(std::string_view bytes);

// Nothing when a character is not in the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace ingot::data
