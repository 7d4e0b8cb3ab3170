#include <algorithm>
#include <array>
#include <memory>

#include "base/file.h"
#include "base/hash.h"
#include "data/token_shard.h"
#include "data/token_shard_layout.h"

namespace ingot::data {

namespace layout = shard_layout;

struct TokenShardWriter::State {
  explicit State(AtomicFile created) : file(std::move(created)) {}

  AtomicFile file;
  Hasher file_hash;
  TokenShardOptions options;
  layout::Header header{};
  std::unique_ptr<std::byte[]> block;  // of block_bytes; pages that small shards never fill stay untouched
  size_t block_bytes = 0;
  size_t used = 0;
  std::vector<uint64_t> block_hashes;
  std::vector<uint64_t> document_starts;
  bool document_pending = false;
  int64_t tokens = 0;
  int64_t text_bytes = 0;

  Result<void> put(std::span<const std::byte> bytes) {
    file_hash.update(bytes);
    return file.write(bytes);
  }

  Result<void> flush_block() {
    const std::span<const std::byte> bytes(block.get(), used);
    block_hashes.push_back(hash64(bytes));
    used = 0;
    return put(bytes);
  }

  template <class T>
  void narrow(std::span<const int32_t> ids) {
    // Aligned: memory from new is, and `used` is a multiple of the token's size.
    T* out = reinterpret_cast<T*>(block.get() + used);
    for (size_t i = 0; i < ids.size(); ++i) out[i] = static_cast<T>(ids[i]);
    used += ids.size() * sizeof(T);
  }
};

TokenShardWriter::TokenShardWriter() = default;
TokenShardWriter::TokenShardWriter(TokenShardWriter&&) noexcept = default;
TokenShardWriter& TokenShardWriter::operator=(TokenShardWriter&&) noexcept = default;
TokenShardWriter::~TokenShardWriter() = default;

Result<TokenShardWriter> TokenShardWriter::create(const std::string& path, const TokenShardOptions& options) {
  INGOT_CHECK(options.vocab_size >= 1 && options.vocab_size <= int64_t{1} << 31, "vocab_size is {}",
              options.vocab_size);
  INGOT_CHECK(options.block_bytes >= 4096 && options.block_bytes % 4096 == 0 &&
                  options.block_bytes <= layout::kMaxBlockBytes,
              "block_bytes is {}; it must be a multiple of 4096", options.block_bytes);
  INGOT_TRY(AtomicFile file, AtomicFile::create(path));
  TokenShardWriter writer;
  writer.state_ = std::make_unique<State>(std::move(file));
  State& s = *writer.state_;
  s.options = options;
  s.block_bytes = static_cast<size_t>(options.block_bytes);
  s.block = std::make_unique_for_overwrite<std::byte[]>(s.block_bytes);
  std::memcpy(s.header.magic, layout::kMagic, sizeof layout::kMagic);
  s.header.format_version = kTokenShardVersion;
  s.header.byte_order = layout::kByteOrder;
  s.header.header_bytes = layout::kHeaderBytes;
  s.header.token_bytes = options.vocab_size <= 65536 ? 2 : 4;
  s.header.block_bytes = static_cast<uint64_t>(options.block_bytes);
  s.header.vocab_size = static_cast<uint64_t>(options.vocab_size);
  s.header.tokenizer_fingerprint = options.tokenizer_fingerprint;
  s.header.hash = hash64(layout::bytes_of(s.header).first(layout::kHashedBytes));
  std::array<std::byte, layout::kHeaderBytes> page{};
  std::memcpy(page.data(), &s.header, sizeof s.header);
  INGOT_TRY_VOID(s.put(page));
  return writer;
}

void TokenShardWriter::begin_document() { state_->document_pending = true; }
void TokenShardWriter::add_text_bytes(int64_t bytes) { state_->text_bytes += bytes; }
int64_t TokenShardWriter::tokens() const { return state_->tokens; }
int64_t TokenShardWriter::data_bytes() const { return state_->tokens * state_->header.token_bytes; }

Result<void> TokenShardWriter::append(std::span<const int32_t> ids) {
  State& s = *state_;
  if (ids.empty()) return {};
  // The sign bit of `outside` is set by an id below 0 or above the last.
  const auto last = static_cast<uint32_t>(s.options.vocab_size - 1);
  uint32_t outside = 0;
  for (const int32_t id : ids) outside |= static_cast<uint32_t>(id) | (last - static_cast<uint32_t>(id));
  INGOT_CHECK(outside >> 31 == 0, "an id is not among the {} of the vocabulary", s.options.vocab_size);
  if (s.document_pending) s.document_starts.push_back(static_cast<uint64_t>(s.tokens));
  s.document_pending = false;
  while (!ids.empty()) {
    const size_t room = (s.block_bytes - s.used) / s.header.token_bytes;
    const std::span<const int32_t> part = ids.first(std::min(room, ids.size()));
    if (s.header.token_bytes == 2) {
      s.narrow<uint16_t>(part);
    } else {
      s.narrow<uint32_t>(part);
    }
    s.tokens += static_cast<int64_t>(part.size());
    ids = ids.subspan(part.size());
    if (s.used == s.block_bytes) INGOT_TRY_VOID(s.flush_block());
  }
  return {};
}

Result<uint64_t> TokenShardWriter::finish() {
  State& s = *state_;
  if (s.used > 0) INGOT_TRY_VOID(s.flush_block());
  const std::array<std::byte, 8> zeros{};
  INGOT_TRY_VOID(
      s.put(std::span(zeros).first(static_cast<size_t>(layout::padded(data_bytes()) - data_bytes()))));
  Hasher tables;
  for (const std::vector<uint64_t>* table : {&s.block_hashes, &s.document_starts}) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span<const uint64_t>(*table));
    tables.update(bytes);
    INGOT_TRY_VOID(s.put(bytes));
  }
  layout::Footer footer{};
  footer.tokens = static_cast<uint64_t>(s.tokens);
  footer.documents = s.document_starts.size();
  footer.text_bytes = static_cast<uint64_t>(s.text_bytes);
  footer.tables_hash = tables.digest();
  footer.header_hash = s.header.hash;
  footer.hash = hash64(layout::bytes_of(footer).first(layout::kHashedBytes));
  std::memcpy(footer.magic, layout::kEndMagic, sizeof layout::kEndMagic);
  INGOT_TRY_VOID(s.put(layout::bytes_of(footer)));
  INGOT_TRY_VOID(s.file.commit());
  return s.file_hash.digest();
}

}  // namespace ingot::data
