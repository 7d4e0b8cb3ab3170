#include "data/tokenizer/byte_alphabet.h"

#include <array>

#include "data/tokenizer/unicode_classes.h"

namespace ingot::data {
namespace {

constexpr uint32_t kFirstStandIn = 0x100;
constexpr uint32_t kStandIns = 68;

struct Alphabet {
  std::array<uint32_t, 256> code_of{};
  std::array<uint8_t, kFirstStandIn + kStandIns> byte_of{};
  std::array<bool, kFirstStandIn + kStandIns> used{};
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  uint32_t next = kFirstStandIn;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const uint32_t code = printable ? byte : next++;
    a.code_of[byte] = code;
    a.byte_of[code] = static_cast<uint8_t>(byte);
    a.used[code] = true;
  }
  return a;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) {
    char encoded[4];
    result.append(encoded, encode_char(kAlphabet.code_of[static_cast<uint8_t>(byte)], encoded));
  }
  return result;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string result;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const DecodedChar c = decode_char(p, end);
    if (c.code >= kAlphabet.used.size() || !kAlphabet.used[c.code]) return std::nullopt;
    result += static_cast<char>(kAlphabet.byte_of[c.code]);
    p += c.bytes;
  }
  return result;
}

}  // namespace ingot::data
