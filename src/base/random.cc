#include "base/random.h"

#include <cmath>
#include <numbers>
#include <span>

#include "base/hash.h"

namespace ingot {
namespace {

constexpr uint32_t kMultiply0 = 0xD2511F53;
constexpr uint32_t kMultiply1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

PhiloxCounter block_of(PhiloxKey key, uint64_t element, uint64_t sample) {
  const uint64_t block = element / 4;
  return philox4x32({low(block), high(block), low(sample), high(sample)}, key);
}

}  // namespace

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiply0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiply1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

PhiloxKey random_key(uint64_t seed, RandomPurpose purpose, uint64_t site) {
  std::array<std::byte, 24> bytes;
  const std::array<uint64_t, 3> words = {seed, static_cast<uint64_t>(purpose), site};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(words[i / 8] >> (8 * (i % 8)));
  const uint64_t hash = hash64(std::span<const std::byte>(bytes));
  return {low(hash), high(hash)};
}

uint32_t random_bits(PhiloxKey key, uint64_t element, uint64_t sample) {
  return block_of(key, element, sample)[element % 4];
}

float random_uniform(PhiloxKey key, uint64_t element, uint64_t sample) {
  return static_cast<float>(random_bits(key, element, sample) >> 8) * 0x1p-24F;
}

double random_normal(PhiloxKey key, uint64_t element, uint64_t sample) {
  const PhiloxCounter block = block_of(key, element, sample);
  const size_t pair = element % 4 & 2U;
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(block[pair]) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(block[pair + 1]) * 0x1p-32);
  return radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace ingot
