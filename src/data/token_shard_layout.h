#pragma once
// The bytes of a token shard, one place for writer and reader; docs/formats/token-shard.md says the same in
// words. Internal to the layer.

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace ingot::data::shard_layout {

static_assert(std::endian::native == std::endian::little, "shards are written and mapped as little-endian");

inline constexpr char kMagic[8] = {'I', 'N', 'G', 'O', 'T', 'T', 'O', 'K'};
inline constexpr char kEndMagic[8] = {'I', 'N', 'G', 'O', 'T', 'E', 'N', 'D'};
inline constexpr uint32_t kByteOrder = 0x01020304;
inline constexpr uint32_t kHeaderBytes = 4096;  // a page, so that blocks of a mapping are aligned
inline constexpr int64_t kTableEntryBytes = 8;
inline constexpr int64_t kMaxBlockBytes = int64_t{1} << 30;

struct Header {
  char magic[8];
  uint32_t format_version;
  uint32_t byte_order;
  uint32_t header_bytes;
  uint32_t token_bytes;
  uint64_t block_bytes;
  uint64_t vocab_size;
  uint64_t tokenizer_fingerprint;
  uint64_t hash;  // of the 48 bytes before
};
static_assert(sizeof(Header) == 56);

struct Footer {
  uint64_t tokens;
  uint64_t documents;
  uint64_t text_bytes;
  uint64_t tables_hash;
  uint64_t header_hash;
  uint64_t reserved;
  uint64_t hash;  // of the 48 bytes before
  char magic[8];
};
static_assert(sizeof(Footer) == 64);

inline constexpr size_t kHashedBytes = 48;

// What lies behind the data so that the tables are aligned.
inline constexpr int64_t padded(int64_t data_bytes) { return (data_bytes + 7) / 8 * 8; }

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T>(&value, 1));
}

template <class T>
T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace ingot::data::shard_layout
