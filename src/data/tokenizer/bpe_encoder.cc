#include "data/tokenizer/bpe_encoder.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace ingot::data {
namespace {

uint64_t load64(const char* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint64_t hash_bytes(const char* p, size_t n) {
  constexpr uint64_t kMultiplier = 0xd6e8feb86659fd93;
  uint64_t hash = n * 0x9e3779b97f4a7c15;
  for (; n >= 8; p += 8, n -= 8) {
    hash = (hash ^ load64(p)) * kMultiplier;
    hash ^= hash >> 32;
  }
  uint64_t rest = 0;
  std::memcpy(&rest, p, n);
  hash = (hash ^ rest) * kMultiplier;
  return hash ^ hash >> 32;
}

constexpr size_t kShortKeyBytes = 15;
constexpr size_t kShortIds = 4;
constexpr size_t kLongKeyBytes = 46;
constexpr size_t kLongIds = 12;
constexpr int kShortBits = 17;  // 4 MiB: a vocabulary and as many words again; the frequent stay in cache
constexpr int kLongBits = 13;
constexpr int kCountShift = 28;  // ids are below 2^20
constexpr uint32_t kIdMask = (1u << kCountShift) - 1;

// The bytes of a short piece, zeros after them, the length in the last byte.
struct alignas(16) ShortKey {
  uint64_t low;
  uint64_t high;
  bool operator==(const ShortKey&) const = default;
};
struct alignas(32) ShortEntry {
  ShortKey key;
  std::array<uint32_t, kShortIds> ids;  // the count in the top bits of the first
};
struct LongEntry {
  uint8_t bytes;
  uint8_t count;
  std::array<char, kLongKeyBytes> key;
  std::array<uint32_t, kLongIds> ids;
};
static_assert(sizeof(ShortEntry) == 32 && sizeof(LongEntry) == 96);

// Keeps the first n bytes of the two words of a key.
struct KeyMask {
  uint64_t low;
  uint64_t high;
};
constexpr std::array<KeyMask, kShortKeyBytes + 1> make_key_masks() {
  std::array<KeyMask, kShortKeyBytes + 1> masks{};
  for (size_t n = 0; n < masks.size(); ++n) {
    masks[n].low = n >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * n) - 1;
    masks[n].high = n <= 8 ? 0 : (uint64_t{1} << 8 * (n - 8)) - 1;
  }
  return masks;
}
constexpr auto kKeyMasks = make_key_masks();

// Lengths vary from piece to piece, so a branch on them would often be predicted wrongly.
inline ShortKey short_key(const char* p, size_t n, const char* text_end) {
  static_assert(std::endian::native == std::endian::little);
  ShortKey key{0, 0};
  if (text_end - p >= 16) [[likely]] {
    key.low = load64(p) & kKeyMasks[n].low;
    key.high = load64(p + 8) & kKeyMasks[n].high;
  } else {
    std::memcpy(&key, p, n);
  }
  key.high |= uint64_t{n} << 56;
  return key;
}

// Slots come in pairs that share a cache line.
inline size_t short_slot(const ShortKey& key) {
  const uint64_t hash = (key.low ^ std::rotl(key.high * 0x9e3779b97f4a7c15, 29)) * 0xd6e8feb86659fd93;
  return hash >> (64 - kShortBits) & ~size_t{1};
}

constexpr size_t kHugePage = 2 << 20;

struct Unmap {
  void* mapping = nullptr;
  size_t bytes = 0;
  void operator()(const void*) const { munmap(mapping, bytes); }
};
// Fresh pages are zeros already. Huge ones mean fewer misses of the address cache; without them all works,
// slower.
template <class T>
std::unique_ptr<T[], Unmap> zeroed_huge_pages(size_t count) {
  const size_t bytes = count * sizeof(T);
  const size_t mapped = bytes + kHugePage;  // so that a page's border lies in it
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  INGOT_CHECK(mapping != MAP_FAILED, "no memory for an encoder's cache of {} bytes", bytes);
  void* memory = mapping;
  size_t room = mapped;
  INGOT_CHECK(std::align(kHugePage, bytes, memory, room) != nullptr, "{} bytes in {}", bytes, mapped);
  madvise(memory, room / kHugePage * kHugePage, MADV_HUGEPAGE);
  return {static_cast<T*>(memory), Unmap{mapping, mapped}};
}

}  // namespace

std::array<uint32_t, 256> BpeModel::byte_ids(std::span<const std::string> tokens,
                                             std::vector<uint8_t>& missing) {
  std::array<uint32_t, 256> ids;
  ids.fill(kNoToken);
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].size() == 1) ids[static_cast<uint8_t>(tokens[id][0])] = id;
  }
  missing.clear();
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    if (ids[byte] == kNoToken) missing.push_back(static_cast<uint8_t>(byte));
  }
  return ids;
}

namespace {
std::array<uint32_t, 256> all_byte_ids(std::span<const std::string> tokens) {
  std::vector<uint8_t> missing;
  const auto ids = BpeModel::byte_ids(tokens, missing);
  INGOT_CHECK(missing.empty(), "{} bytes have no token", missing.size());
  return ids;
}
}  // namespace

BpeModel::BpeModel(std::vector<std::string> tokens, std::vector<Merge> merges, bool whole_pieces)
    : tokens_(std::move(tokens)),
      merges_(std::move(merges)),
      whole_pieces_(whole_pieces),
      tables_(all_byte_ids(tokens_), merges_),
      borders_(tokens_) {
  if (!whole_pieces_) return;
  whole_table_.assign(std::bit_ceil(tokens_.size() * 2 + 2), kFreeSlot);
  const size_t mask = whole_table_.size() - 1;
  for (uint32_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    if (token.empty()) continue;
    longest_ = std::max(longest_, token.size());
    const uint64_t hash = hash_bytes(token.data(), token.size());
    size_t i = hash & mask;
    while (whole_table_[i] != kFreeSlot) i = (i + 1) & mask;
    whole_table_[i] = (hash & kTagMask) | id;
  }
}

uint32_t BpeModel::find_whole(const char* p, size_t n) const {
  const size_t mask = whole_table_.size() - 1;
  const uint64_t hash = hash_bytes(p, n);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const uint64_t slot = whole_table_[i];
    if (slot == kFreeSlot) return kNoToken;
    if ((slot ^ hash) & kTagMask) continue;
    const uint32_t id = static_cast<uint32_t>(slot);
    if (tokens_[id].size() == n && std::memcmp(tokens_[id].data(), p, n) == 0) return id;
  }
}

uint32_t* BpeModel::encode_piece(const char* p, size_t n, uint32_t* out, MergeScratch& scratch) const {
  if (n == 1) {
    *out = tables_.byte_id(static_cast<uint8_t>(*p));
    return out + 1;
  }
  if (whole_pieces_ && n <= longest_) {
    const uint32_t id = find_whole(p, n);
    if (id != kNoToken) {
      *out = id;
      return out + 1;
    }
  }
  return merge_piece(tables_, p, n, out, scratch);
}

struct BpePieceEncoder::State {
  explicit State(const BpeModel& bpe)
      : model(bpe),
        short_cache(zeroed_huge_pages<ShortEntry>(size_t{1} << kShortBits)),
        long_cache(zeroed_huge_pages<LongEntry>(size_t{1} << kLongBits)) {
    seed();
  }

  const BpeModel& model;
  std::unique_ptr<ShortEntry[], Unmap> short_cache;
  std::unique_ptr<LongEntry[], Unmap> long_cache;
  MergeScratch scratch;
  std::vector<uint32_t> buffer;  // ids on their way to the caller's vector
  std::array<ShortKey, kBatch> keys;
  std::array<size_t, kBatch> slots;

  // Room for `more` ids after `at`; returns where `at` is now.
  uint32_t* reserve(uint32_t* at, size_t more) {
    const size_t used = buffer.empty() ? 0 : static_cast<size_t>(at - buffer.data());
    if (used + more > buffer.size()) buffer.resize(std::max(buffer.size() * 2, used + more));
    return buffer.data() + used;
  }

  uint32_t* encode_short(const ShortKey& key, size_t slot, const char* p, size_t n, uint32_t* out) {
    const ShortEntry* entries = &short_cache[slot];
    const auto differs = [&](const ShortEntry& entry) {
      return (entry.key.low ^ key.low) | (entry.key.high ^ key.high);
    };
    const ShortEntry& entry = entries[differs(entries[0]) == 0 ? 0 : 1];
    if (differs(entry) != 0) [[unlikely]]
      return miss_short(key, slot, p, n, out);
    const uint32_t count = entry.ids[0] >> kCountShift;
    std::memcpy(out, entry.ids.data(), sizeof entry.ids);
    *out &= kIdMask;
    return out + count;
  }

  void remember(const ShortKey& key, size_t slot, std::span<const uint32_t> ids) {
    ShortEntry* entries = &short_cache[slot];
    entries[1] = entries[0];
    entries[0].key = key;
    std::copy(ids.begin(), ids.end(), entries[0].ids.begin());
    entries[0].ids[0] |= static_cast<uint32_t>(ids.size()) << kCountShift;
  }

  [[gnu::noinline]] uint32_t* miss_short(const ShortKey& key, size_t slot, const char* p, size_t n,
                                         uint32_t* out) {
    uint32_t* end = model.encode_piece(p, n, out, scratch);
    const size_t count = static_cast<size_t>(end - out);
    if (count <= kShortIds) remember(key, slot, {out, count});
    return end;
  }

  // Words that are one token are known from the start; of those that share a place the more frequent stay.
  void seed() {
    if (!model.whole_pieces()) return;
    const auto& tokens = model.tokens();
    for (size_t i = std::min(tokens.size(), size_t{1} << (kShortBits - 1)); i > 0; --i) {
      const std::string& token = tokens[i - 1];
      if (token.empty() || token.size() > kShortKeyBytes) continue;
      const ShortKey key = short_key(token.data(), token.size(), token.data() + token.size());
      const uint32_t id = static_cast<uint32_t>(i - 1);
      remember(key, short_slot(key), {&id, 1});
    }
  }

  uint32_t* encode_long(const char* p, size_t n, uint32_t* out) {
    if (n > kLongKeyBytes) return model.encode_piece(p, n, out, scratch);
    LongEntry& entry = long_cache[hash_bytes(p, n) >> (64 - kLongBits)];
    if (entry.bytes == n && std::memcmp(entry.key.data(), p, n) == 0) {
      std::memcpy(out, entry.ids.data(), sizeof entry.ids);
      return out + entry.count;
    }
    uint32_t* end = model.encode_piece(p, n, out, scratch);
    const size_t count = static_cast<size_t>(end - out);
    if (count > kLongIds) return end;
    entry.bytes = static_cast<uint8_t>(n);
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.key.data(), p, n);
    std::copy(out, end, entry.ids.begin());
    return end;
  }

  uint32_t* encode_one(const char* p, const char* end, const char* text_end, uint32_t* out) {
    const size_t n = static_cast<size_t>(end - p);
    if (n > kShortKeyBytes) return encode_long(p, n, out);
    const ShortKey key = short_key(p, n, text_end);
    return encode_short(key, short_slot(key), p, n, out);
  }

  // A piece that begins with a three-byte character: cut where no token can reach across.
  uint32_t* encode_wide(const char* p, const char* end, const char* text_end, uint32_t* out) {
    const char* part = p;
    for (const char* q = p; end - q >= 6 && BorderFilter::is_wide(q) && BorderFilter::is_wide(q + 3);) {
      q += 3;
      if (!model.borders().may_cut(q)) continue;
      out = encode_one(part, q, text_end, out);
      part = q;
    }
    return encode_one(part, end, text_end, out);
  }
};

BpePieceEncoder::BpePieceEncoder(const BpeModel& model) : state_(std::make_unique<State>(model)) {}
BpePieceEncoder::~BpePieceEncoder() = default;

void BpePieceEncoder::encode(const char* begin, std::span<const char* const> ends, const char* text_end,
                             std::vector<int32_t>& out) {
  State& s = *state_;
  constexpr uint8_t kWideLead = 0xe0;
  constexpr size_t kNotShort = ~size_t{0};
  // A cache hit writes all of an entry's ids, of which the last may be past the piece's own.
  constexpr size_t kSlack = kLongIds;
  for (size_t first = 0; first < ends.size(); first += kBatch) {
    const auto batch = ends.subspan(first, std::min(kBatch, ends.size() - first));
    const char* p = begin;
    for (size_t i = 0; i < batch.size(); p = batch[i++]) {
      const size_t n = static_cast<size_t>(batch[i] - p);
      if (n > kShortKeyBytes || (n > 3 && static_cast<uint8_t>(*p) >= kWideLead)) [[unlikely]] {
        s.slots[i] = kNotShort;
        continue;
      }
      s.keys[i] = short_key(p, n, text_end);
      s.slots[i] = short_slot(s.keys[i]);
      __builtin_prefetch(&s.short_cache[s.slots[i]]);
    }
    uint32_t* at = s.reserve(s.buffer.data(), static_cast<size_t>(p - begin) + kSlack);
    p = begin;
    for (size_t i = 0; i < batch.size(); p = batch[i++]) {
      const size_t n = static_cast<size_t>(batch[i] - p);
      if (s.slots[i] != kNotShort) [[likely]] {
        at = s.encode_short(s.keys[i], s.slots[i], p, n, at);
      } else if (static_cast<uint8_t>(*p) >= kWideLead) {
        at = s.encode_wide(p, batch[i], text_end, at);
      } else {
        at = s.encode_long(p, n, at);
      }
    }
    const auto* ids = reinterpret_cast<const int32_t*>(s.buffer.data());
    out.insert(out.end(), ids, ids + (at - s.buffer.data()));
    begin = p;
  }
}

}  // namespace ingot::data
