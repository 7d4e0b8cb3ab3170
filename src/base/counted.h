#pragma once
// Numbers of things in words: "1 token", "2,048 tokens".

#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.h"

namespace ingot {

// `many` is needed where it is not `one` and an s.
inline std::string counted(int64_t count, std::string_view one, std::string_view many = {}) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", format_integer(count), one)
                      : fmt::format("{} {}", format_integer(count), many);
}

}  // namespace ingot
