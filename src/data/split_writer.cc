#include "data/split_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/random.h"

namespace ingot::data {
namespace {

constexpr int64_t kCopyTokens = int64_t{1} << 20;

// Calls `take` with the tokens [first, last) of a shard, a part at a time.
template <class Take>
Result<void> for_each_part(const TokenShard& shard, int64_t first, int64_t last, const Take& take) {
  std::vector<int32_t> part;
  while (first < last) {
    part.resize(static_cast<size_t>(std::min(kCopyTokens, last - first)));
    INGOT_TRY_VOID(shard.read(first, part));
    INGOT_TRY_VOID(take(std::span<const int32_t>(part)));
    first += static_cast<int64_t>(part.size());
  }
  return {};
}

}  // namespace

SplitWriter::SplitWriter(std::string folder, std::string split, const TokenShardOptions& options,
                         int64_t shard_bytes, std::span<const uint32_t> text_bytes)
    : folder_(std::move(folder)),
      split_(std::move(split)),
      options_(options),
      token_bytes_(options.vocab_size <= 65536 ? 2 : 4),
      text_bytes_(text_bytes) {
  INGOT_CHECK(static_cast<int64_t>(text_bytes.size()) == options.vocab_size, "text bytes of {} ids of {}",
              text_bytes.size(), options.vocab_size);
  shard_bytes_ = std::max(shard_bytes / token_bytes_, int64_t{1}) * token_bytes_;
}

Result<void> SplitWriter::open_shard() {
  ShardRecord shard;
  shard.file = fmt::format("{}-{:05}.tok", split_, record_.shards.size());
  INGOT_TRY(writer_, TokenShardWriter::create(folder_ + "/" + shard.file, options_));
  record_.shards.push_back(std::move(shard));
  return {};
}

Result<void> SplitWriter::close_shard() {
  ShardRecord& shard = record_.shards.back();
  shard.tokens = writer_->tokens();
  INGOT_TRY(shard.hash, writer_->finish());
  const std::string path = folder_ + "/" + shard.file;
  INGOT_TRY(shard.file_bytes, file_bytes(path));
  // What was written is read back as a reader sees it; the bytes are still in memory.
  INGOT_TRY(const TokenShard written, TokenShard::open(path));
  shard.documents = written.info().documents;
  record_.documents += shard.documents;
  writer_.reset();
  return {};
}

void SplitWriter::begin_document() { document_pending_ = true; }

Result<void> SplitWriter::append(std::span<const int32_t> ids) {
  while (!ids.empty()) {
    if (writer_ && writer_->data_bytes() >= shard_bytes_) INGOT_TRY_VOID(close_shard());
    if (!writer_) INGOT_TRY_VOID(open_shard());
    if (document_pending_) writer_->begin_document();
    document_pending_ = false;
    const int64_t room = (shard_bytes_ - writer_->data_bytes()) / token_bytes_;
    const auto part = ids.first(std::min(ids.size(), static_cast<size_t>(room)));
    INGOT_TRY_VOID(writer_->append(part));
    int64_t stands_for = 0;
    for (const int32_t id : part) stands_for += text_bytes_[static_cast<size_t>(id)];
    writer_->add_text_bytes(stands_for);
    record_.text_bytes += stands_for;
    record_.tokens += static_cast<int64_t>(part.size());
    ids = ids.subspan(part.size());
  }
  return {};
}

Result<SplitRecord> SplitWriter::finish() {
  if (writer_) INGOT_TRY_VOID(close_shard());
  return record_;
}

SplitRouter::SplitRouter(SplitWriter& train, SplitWriter& validation, double validation_fraction,
                         uint64_t seed, std::string spool_path, int64_t held_tokens,
                         const TokenShardOptions& options)
    : train_(train),
      validation_(validation),
      validation_fraction_(validation_fraction),
      seed_(seed),
      spool_path_(std::move(spool_path)),
      held_limit_(held_tokens),
      options_(options) {}

SplitWriter& SplitRouter::split_of(int64_t document) {
  if (validation_fraction_ <= 0) return train_;
  const PhiloxKey key = random_key(seed_, RandomPurpose::kSplit, 0);
  const double draw = std::ldexp(random_bits(key, static_cast<uint64_t>(document), 0), -32);
  return draw < validation_fraction_ ? validation_ : train_;
}

Result<void> SplitRouter::begin_document() {
  if (documents_ == 0 && validation_fraction_ > 0) {
    holding_ = true;
  } else {
    if (holding_) INGOT_TRY_VOID(release_first_document());
    current_ = &split_of(documents_);
    current_->begin_document();
  }
  ++documents_;
  return {};
}

Result<void> SplitRouter::append(std::span<const int32_t> ids) {
  return holding_ ? hold(ids) : current_->append(ids);
}

Result<void> SplitRouter::hold(std::span<const int32_t> ids) {
  first_tokens_ += static_cast<int64_t>(ids.size());
  if (spool_) return spool_->append(ids);
  held_.insert(held_.end(), ids.begin(), ids.end());
  if (first_tokens_ <= held_limit_) return {};
  INGOT_TRY(spool_, TokenShardWriter::create(spool_path_, options_));
  spool_->begin_document();
  const std::vector<int32_t> poured = std::exchange(held_, {});
  return spool_->append(poured);
}

Result<void> SplitRouter::close_spool() {
  holding_ = false;
  if (!spool_) return {};
  INGOT_TRY_VOID(spool_->finish());
  spool_.reset();
  INGOT_TRY(spooled_, TokenShard::open(spool_path_));
  return remove_all(spool_path_);  // the mapping keeps the bytes
}

Result<void> SplitRouter::release(int64_t first, int64_t last, SplitWriter& split) {
  split.begin_document();
  if (spooled_) return for_each_part(*spooled_, first, last, [&](auto ids) { return split.append(ids); });
  const std::span<const int32_t> held(held_);
  return split.append(held.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
}

Result<void> SplitRouter::release_first_document() {
  INGOT_TRY_VOID(close_spool());
  INGOT_TRY_VOID(release(0, first_tokens_, split_of(0)));
  held_ = {};
  spooled_.reset();
  return {};
}

Result<void> SplitRouter::cut_only_document() {
  INGOT_TRY_VOID(close_spool());
  const double share = 1 - validation_fraction_;
  const auto kept = static_cast<int64_t>(std::floor(static_cast<double>(first_tokens_) * share));
  INGOT_TRY_VOID(release(0, kept, train_));
  return release(kept, first_tokens_, validation_);
}

Result<std::string> SplitRouter::finish() {
  if (validation_fraction_ <= 0) return std::string("none");
  if (!holding_) return std::string("documents by hash");
  INGOT_TRY_VOID(cut_only_document());
  return std::string("last part of one document");
}

}  // namespace ingot::data
