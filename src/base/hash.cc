#include "base/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <array>

#include "base/check.h"

namespace ingot {

uint64_t hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t hash_combine(uint64_t a, uint64_t b) {
  std::array<std::byte, 16> bytes;
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(a >> (8 * i));
    bytes[8 + i] = static_cast<std::byte>(b >> (8 * i));
  }
  return hash64(std::span<const std::byte>(bytes));
}

std::string hash_hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher(uint64_t seed) : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->xxh);
  const XXH_errorcode code = XXH3_64bits_reset_withSeed(&state_->xxh, seed);
  INGOT_CHECK(code == XXH_OK, "XXH3 reset failed with {}", static_cast<int>(code));
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const XXH_errorcode code = XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
  INGOT_CHECK(code == XXH_OK, "XXH3 update of {} bytes failed", bytes.size());
}

uint64_t Hasher::digest() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace ingot
