// Any bytes as a safetensors file: refused with a sentence, or every byte of the data belongs to one tensor.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/hash.h"
#include "checkpoint/formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ingot::checkpoint;
  const auto view = SafetensorsView::parse(std::as_bytes(std::span(bytes, size)), "fuzz");
  if (!view) {
    INGOT_CHECK(view.error().message.find("fuzz: ") == 0, "an error without its place: {}",
                view.error().message);
    return 0;
  }
  int64_t end = view->header_bytes();
  for (const SafetensorsEntry& entry : view->entries()) {
    INGOT_CHECK(entry.offset == end, "{} begins at {}, not at {}", entry.name, entry.offset, end);
    end += entry.bytes;
    INGOT_CHECK(view->find(entry.name) == &entry, "{} is not found", entry.name);
    (void)ingot::hash64(view->bytes_of(entry));
  }
  INGOT_CHECK(end == static_cast<int64_t>(size), "{} bytes of {} belong to tensors", end, size);
  return 0;
}
