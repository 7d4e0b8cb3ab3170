// Any bytes as a token shard: refused with a sentence, or read without a fault.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "data/token_shard.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ingot::data;
  (void)parse_manifest({reinterpret_cast<const char*>(bytes), size}, "fuzz");
  const auto shard = TokenShard::parse(std::as_bytes(std::span(bytes, size)), "fuzz");
  if (!shard) return 0;
  (void)shard->verify();
  const int64_t tokens = shard->info().tokens;
  std::vector<int32_t> out(static_cast<size_t>(tokens < 1000 ? tokens : 1000));
  (void)shard->read(0, out);
  (void)shard->read(tokens - static_cast<int64_t>(out.size()), out);
  return 0;
}
