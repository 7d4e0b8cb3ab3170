#pragma once
// Unicode normalization form C (UAX #15), which the tokenizers of the Qwen family apply before they cut text.
// Invalid UTF-8 bytes stay as they are.

#include <string>
#include <string_view>

namespace ingot::data {

// `text` itself when it is in form C already, else its form C written to `buffer`.
std::string_view to_nfc(std::string_view text, std::string& buffer);

}  // namespace ingot::data
