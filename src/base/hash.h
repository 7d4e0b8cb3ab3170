#pragma once
// Hashes. hash64 is XXH3-64: fast, stable over versions and machines, for checksums and keys; not
// cryptographic.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

uint64_t hash64(std::string_view bytes, uint64_t seed = 0);
uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash_combine(uint64_t a, uint64_t b);  // order matters
std::string hash_hex(uint64_t hash);            // 16 lower-case digits

// The same hash over pieces.
class Hasher {
 public:
  explicit Hasher(uint64_t seed = 0);
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot
