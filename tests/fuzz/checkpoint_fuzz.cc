// Any bytes as the JSON files of a checkpoint: refused with a sentence, or what was read survives being
// written again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "checkpoint/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ingot::checkpoint;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto state = parse_state(text, "fuzz")) {
    const std::string written = to_json(*state);
    const auto again = parse_state(written, "again");
    INGOT_CHECK(again.has_value(), "what was written is refused: {}", again.error().message);
    INGOT_CHECK(to_json(*again) == written, "what was written reads as something else: {}", written);
  }
  if (const auto manifest = parse_manifest(text, "fuzz")) {
    const std::string written = to_json(*manifest);
    const auto again = parse_manifest(written, "again");
    INGOT_CHECK(again.has_value(), "what was written is refused: {}", again.error().message);
    INGOT_CHECK(to_json(*again) == written, "what was written reads as something else: {}", written);
  }
  return 0;
}
