// A configuration file of any bytes ends in a RunSpec or in a message; what was accepted survives a dump.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "spec/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // A fuzzer must not open files by names that it makes up.
  if (text.find("from") != std::string::npos) return 0;
  const auto loaded = ingot::spec::parse_spec(text, "fuzz.toml", {});
  if (!loaded) return 0;
  const auto again = ingot::spec::parse_spec(ingot::spec::dump_spec(loaded->spec), "dump.toml", {});
  INGOT_CHECK(again.has_value(), "a dump is refused: {}", again.error().message);
  INGOT_CHECK(again->spec == loaded->spec, "a dump reads as something else: {}",
              ingot::spec::dump_spec(loaded->spec));
  return 0;
}
