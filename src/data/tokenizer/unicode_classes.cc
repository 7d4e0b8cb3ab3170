#include "data/tokenizer/unicode_classes.h"

#include <map>
#include <string>

namespace ingot::data {

CharClasses::CharClasses() {
  constexpr uint32_t kPageSize = 256;
  std::map<std::string, uint16_t> known;
  size_t range = 0;
  std::string page(kPageSize, '\0');
  for (uint32_t index = 0; index < pages_.size(); ++index) {
    for (uint32_t i = 0; i < kPageSize; ++i) {
      const uint32_t code = index * kPageSize + i;
      while (range + 1 < kClassRangeCount && kClassRanges[range + 1] >> 8 <= code) ++range;
      page[i] = static_cast<char>(kClassRanges[range] & 0xff);
    }
    const auto [place, is_new] = known.try_emplace(page, static_cast<uint16_t>(known.size()));
    if (is_new) {
      for (const char value : page) leaves_.push_back(static_cast<uint8_t>(value));
    }
    pages_[index] = place->second;
  }
  for (uint32_t byte = 0; byte < 0x80; ++byte) ascii_[byte] = of(byte);
}

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

}  // namespace ingot::data
