#include "data/token_shard.h"

#include <algorithm>
#include <atomic>

#include "base/file.h"
#include "base/hash.h"
#include "base/units.h"
#include "data/token_shard_layout.h"

namespace ingot::data {

namespace layout = shard_layout;

namespace {

enum Verdict : uint8_t { kUnknown = 0, kSound = 1, kWrongHash = 2, kWrongId = 3 };

constexpr std::string_view kRemedy = "Build the data again with ingot data build, or copy the file again";

Error not_a_shard(const std::string& name, const std::string& reason) {
  return corrupt(fmt::format("{} is not a sound token shard: {}. {}", name, reason, kRemedy));
}

Result<layout::Header> parse_header(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < sizeof(layout::Header) ||
      std::memcmp(bytes.data(), layout::kMagic, sizeof layout::kMagic) != 0) {
    return corrupt(
        fmt::format("{} is not a token shard: it does not begin with INGOTTOK. Text becomes shards with "
                    "ingot data build",
                    name));
  }
  const auto header = layout::load<layout::Header>(bytes, 0);
  if (header.byte_order != layout::kByteOrder)
    return not_a_shard(name, "its byte order is not little-endian");
  if (header.format_version != kTokenShardVersion) {
    return corrupt(
        fmt::format("{} is a token shard of format version {}; this ingot reads version {}. Use a newer "
                    "ingot, or build the data again",
                    name, header.format_version, kTokenShardVersion));
  }
  if (header.hash != hash64(bytes.first(layout::kHashedBytes)))
    return not_a_shard(name, "its header is damaged");
  if (bytes.size() < layout::kHeaderBytes + sizeof(layout::Footer)) {
    return not_a_shard(name, fmt::format("it ends at byte {} without a footer: it is torn",
                                         format_integer(static_cast<int64_t>(bytes.size()))));
  }
  const bool sizes_ok =
      header.header_bytes == layout::kHeaderBytes && (header.token_bytes == 2 || header.token_bytes == 4) &&
      header.block_bytes >= 4096 && header.block_bytes % 4096 == 0 &&
      header.block_bytes <= static_cast<uint64_t>(layout::kMaxBlockBytes) && header.vocab_size >= 1 &&
      header.vocab_size <= uint64_t{1} << 31 && (header.token_bytes == 4 || header.vocab_size <= 65536);
  if (!sizes_ok) return not_a_shard(name, "its header holds sizes that are not allowed");
  return header;
}

Result<layout::Footer> parse_footer(std::span<const std::byte> bytes, const layout::Header& header,
                                    const std::string& name) {
  const size_t offset = bytes.size() - sizeof(layout::Footer);
  const auto footer = layout::load<layout::Footer>(bytes, offset);
  if (std::memcmp(footer.magic, layout::kEndMagic, sizeof layout::kEndMagic) != 0) {
    return not_a_shard(name, fmt::format("it ends at byte {} without a footer: it is torn",
                                         format_integer(static_cast<int64_t>(bytes.size()))));
  }
  if (footer.hash != hash64(bytes.subspan(offset, layout::kHashedBytes))) {
    return not_a_shard(name, "its footer is damaged");
  }
  if (footer.header_hash != header.hash) return not_a_shard(name, "its header and footer are of two files");
  return footer;
}

// The sizes that header and footer claim, bounded by the file's own size before they are multiplied.
Result<TokenShardInfo> checked_info(const layout::Header& header, const layout::Footer& footer,
                                    uint64_t file_bytes, const std::string& name) {
  const std::string claim =
      fmt::format("its footer claims {} tokens and {} documents, which {} bytes do not hold", footer.tokens,
                  footer.documents, file_bytes);
  if (footer.tokens > file_bytes / header.token_bytes ||
      footer.documents > file_bytes / layout::kTableEntryBytes || footer.documents > footer.tokens ||
      footer.text_bytes > static_cast<uint64_t>(INT64_MAX)) {
    return not_a_shard(name, claim);
  }
  TokenShardInfo info;
  info.tokens = static_cast<int64_t>(footer.tokens);
  info.documents = static_cast<int64_t>(footer.documents);
  info.text_bytes = static_cast<int64_t>(footer.text_bytes);
  info.vocab_size = static_cast<int64_t>(header.vocab_size);
  info.tokenizer_fingerprint = header.tokenizer_fingerprint;
  info.token_bytes = static_cast<int>(header.token_bytes);
  info.block_bytes = static_cast<int64_t>(header.block_bytes);
  const int64_t data_bytes = info.tokens * info.token_bytes;
  info.blocks = (data_bytes + info.block_bytes - 1) / info.block_bytes;
  const int64_t expected = layout::kHeaderBytes + layout::padded(data_bytes) +
                           layout::kTableEntryBytes * (info.blocks + info.documents) +
                           static_cast<int64_t>(sizeof(layout::Footer));
  if (expected != static_cast<int64_t>(file_bytes)) return not_a_shard(name, claim);
  return info;
}

template <class T>
void widen(std::span<const std::byte> stored, std::span<int32_t> out) {
  constexpr size_t kChunk = 16;  // a fixed count is what the compiler makes vector code of
  size_t i = 0;
  for (; i + kChunk <= out.size(); i += kChunk) {
    T part[kChunk];
    std::memcpy(part, stored.data() + i * sizeof(T), sizeof part);
    int32_t* const wide = out.data() + i;
    for (size_t j = 0; j < kChunk; ++j) wide[j] = static_cast<int32_t>(part[j]);
  }
  for (; i < out.size(); ++i) out[i] = static_cast<int32_t>(layout::load<T>(stored, i * sizeof(T)));
}

template <class T>
uint32_t greatest(std::span<const std::byte> stored) {
  T high = 0;
  for (size_t i = 0; i + sizeof(T) <= stored.size(); i += sizeof(T))
    high = std::max(high, layout::load<T>(stored, i));
  return high;
}

}  // namespace

struct TokenShard::State {
  std::string path;
  MappedFile file;                   // empty for parse()
  std::span<const std::byte> bytes;  // of the whole file
  std::span<const std::byte> data;
  TokenShardInfo info;
  std::vector<uint64_t> block_hashes;
  std::span<const uint64_t> document_starts;
  std::vector<uint64_t> copied_starts;  // where the bytes are not aligned
  // A verdict is the same whoever finds it, so relaxed order is enough; two threads may both look.
  std::unique_ptr<std::atomic<uint8_t>[]> verdicts;

  Result<void> read_tables();
  std::span<const std::byte> block(int64_t index) const {
    const int64_t first = index * info.block_bytes;
    const int64_t size = std::min(info.block_bytes, static_cast<int64_t>(data.size()) - first);
    return data.subspan(static_cast<size_t>(first), static_cast<size_t>(size));
  }
  Verdict examine(int64_t index) const;
  Result<void> report(int64_t index, Verdict verdict) const;
};

Result<void> TokenShard::State::read_tables() {
  const size_t offset =
      layout::kHeaderBytes + static_cast<size_t>(layout::padded(info.tokens * info.token_bytes));
  const size_t entries = static_cast<size_t>(info.blocks + info.documents);
  const std::span<const std::byte> tables = bytes.subspan(offset, entries * layout::kTableEntryBytes);
  const auto footer = layout::load<layout::Footer>(bytes, bytes.size() - sizeof(layout::Footer));
  if (hash64(tables) != footer.tables_hash) return not_a_shard(path, "its tables are damaged");
  block_hashes.resize(static_cast<size_t>(info.blocks));
  const size_t hashes_bytes = block_hashes.size() * sizeof(uint64_t);
  if (hashes_bytes > 0) std::memcpy(block_hashes.data(), tables.data(), hashes_bytes);
  const std::span<const std::byte> starts = tables.subspan(hashes_bytes);
  if (reinterpret_cast<uintptr_t>(starts.data()) % alignof(uint64_t) == 0) {
    document_starts = {reinterpret_cast<const uint64_t*>(starts.data()), static_cast<size_t>(info.documents)};
  } else {
    copied_starts.resize(static_cast<size_t>(info.documents));
    if (!starts.empty()) std::memcpy(copied_starts.data(), starts.data(), starts.size());
    document_starts = copied_starts;
  }
  for (size_t i = 0; i < document_starts.size(); ++i) {
    const bool ascending = i == 0 || document_starts[i] > document_starts[i - 1];
    if (!ascending || document_starts[i] >= static_cast<uint64_t>(info.tokens)) {
      return not_a_shard(path, fmt::format("document {} starts at token {}, out of order or beyond the end",
                                           i, document_starts[i]));
    }
  }
  return {};
}

Verdict TokenShard::State::examine(int64_t index) const {
  const std::span<const std::byte> stored = block(index);
  if (hash64(stored) != block_hashes[static_cast<size_t>(index)]) return kWrongHash;
  const uint32_t high = info.token_bytes == 2 ? greatest<uint16_t>(stored) : greatest<uint32_t>(stored);
  return static_cast<int64_t>(high) < info.vocab_size ? kSound : kWrongId;
}

Result<void> TokenShard::State::report(int64_t index, Verdict verdict) const {
  if (verdict == kSound) return {};
  const int64_t first = layout::kHeaderBytes + index * info.block_bytes;
  const int64_t last = first + static_cast<int64_t>(block(index).size()) - 1;
  if (verdict == kWrongHash) {
    return corrupt(
        fmt::format("{}: checksum of block {} is wrong (bytes {} to {}). The file changed or the disk is "
                    "failing. {}; or skip it: --set data.on_corrupt=skip (counted, never silent)",
                    path, index, format_integer(first), format_integer(last), kRemedy));
  }
  return corrupt(fmt::format(
      "{}: block {} (bytes {} to {}) holds a token that is not below the vocabulary of {}. {}", path, index,
      format_integer(first), format_integer(last), format_integer(info.vocab_size), kRemedy));
}

TokenShard::TokenShard() : state_(std::make_unique<State>()) {}
TokenShard::TokenShard(TokenShard&&) noexcept = default;
TokenShard& TokenShard::operator=(TokenShard&&) noexcept = default;
TokenShard::~TokenShard() = default;

Result<TokenShard> TokenShard::open(const std::string& path) {
  INGOT_TRY(MappedFile file, MappedFile::open(path));
  INGOT_TRY(TokenShard shard, parse(file.bytes(), path));
  shard.state_->file = std::move(file);
  return shard;
}

Result<TokenShard> TokenShard::parse(std::span<const std::byte> bytes, std::string name) {
  INGOT_TRY(const layout::Header header, parse_header(bytes, name));
  INGOT_TRY(const layout::Footer footer, parse_footer(bytes, header, name));
  TokenShard shard;
  State& s = *shard.state_;
  INGOT_TRY(s.info, checked_info(header, footer, bytes.size(), name));
  s.path = std::move(name);
  s.bytes = bytes;
  s.data = bytes.subspan(layout::kHeaderBytes, static_cast<size_t>(s.info.tokens * s.info.token_bytes));
  INGOT_TRY_VOID(s.read_tables());
  s.verdicts = std::make_unique<std::atomic<uint8_t>[]>(static_cast<size_t>(s.info.blocks));
  return shard;
}

const std::string& TokenShard::path() const { return state_->path; }
const TokenShardInfo& TokenShard::info() const { return state_->info; }
std::span<const uint64_t> TokenShard::document_starts() const { return state_->document_starts; }

Result<void> TokenShard::read(int64_t first, std::span<int32_t> out) const {
  const State& s = *state_;
  const int64_t count = static_cast<int64_t>(out.size());
  INGOT_CHECK(first >= 0 && count <= s.info.tokens && first <= s.info.tokens - count,
              "tokens {} to {} of a shard of {}", first, first + count, s.info.tokens);
  if (out.empty()) return {};
  const int64_t begin = first * s.info.token_bytes;
  const int64_t end = begin + count * s.info.token_bytes;
  for (int64_t b = begin / s.info.block_bytes; b <= (end - 1) / s.info.block_bytes; ++b) {
    std::atomic<uint8_t>& kept = s.verdicts[static_cast<size_t>(b)];
    uint8_t verdict = kept.load(std::memory_order_relaxed);
    if (verdict == kUnknown) {
      verdict = s.examine(b);
      kept.store(verdict, std::memory_order_relaxed);
    }
    if (verdict != kSound) return s.report(b, static_cast<Verdict>(verdict));
  }
  const auto stored = s.data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  if (s.info.token_bytes == 2) {
    widen<uint16_t>(stored, out);
  } else {
    widen<uint32_t>(stored, out);
  }
  return {};
}

Result<void> TokenShard::verify_block(int64_t block) const {
  INGOT_CHECK(block >= 0 && block < state_->info.blocks, "block {} of {}", block, state_->info.blocks);
  return state_->report(block, state_->examine(block));
}

std::vector<Error> TokenShard::verify() const {
  std::vector<Error> errors;
  for (int64_t b = 0; b < state_->info.blocks; ++b) {
    if (auto result = verify_block(b); !result) errors.push_back(result.error());
  }
  return errors;
}

}  // namespace ingot::data
