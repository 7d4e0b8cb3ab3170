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

int64_t SplitRouter::kept_of_one() const {
  return static_cast<int64_t>(std::floor(static_cast<double>(first_tokens_) * (1 - validation_fraction_)));
}

Result<void> SplitRouter::hold(std::span<const int32_t> ids) {
  first_tokens_ += static_cast<int64_t>(ids.size());
  if (spool_) return spool_->append(ids);
  // More tokens only move the border of the last part on: what is before it now is for training either way.
  if (&split_of(0) == &train_) {
    const int64_t kept = kept_of_one();
    const int64_t before = first_tokens_ - static_cast<int64_t>(ids.size());
    INGOT_TRY_VOID(release(std::min(kept, before), train_));
    const auto direct = ids.first(static_cast<size_t>(std::max(kept - before, int64_t{0})));
    INGOT_TRY_VOID(train_.append(direct));
    released_ += static_cast<int64_t>(direct.size());
    ids = ids.subspan(direct.size());
  }
  held_.insert(held_.end(), ids.begin(), ids.end());
  if (first_tokens_ - released_ <= held_limit_) return {};
  INGOT_TRY(spool_, TokenShardWriter::create(spool_path_, options_));
  spool_->begin_document();
  spool_begin_ = released_;
  INGOT_TRY_VOID(spool_->append(std::span<const int32_t>(held_).subspan(held_begin_)));
  held_ = {};
  held_begin_ = 0;
  return {};
}

Result<void> SplitRouter::close_spool() {
  holding_ = false;
  if (!spool_) return {};
  INGOT_TRY_VOID(spool_->finish());
  spool_.reset();
  INGOT_TRY(spooled_, TokenShard::open(spool_path_));
  return remove_all(spool_path_);  // the mapping keeps the bytes
}

Result<void> SplitRouter::release(int64_t end, SplitWriter& split) {
  if (released_ == 0) split.begin_document();
  const int64_t begin = std::exchange(released_, end);
  if (spooled_) {
    return for_each_part(*spooled_, begin - spool_begin_, end - spool_begin_,
                         [&](auto ids) { return split.append(ids); });
  }
  const auto count = static_cast<size_t>(end - begin);
  INGOT_TRY_VOID(split.append(std::span<const int32_t>(held_).subspan(held_begin_, count)));
  held_begin_ += count;
  if (held_begin_ * 2 >= held_.size()) {  // so each token moves about once
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(held_begin_));
    held_begin_ = 0;
  }
  return {};
}

Result<void> SplitRouter::release_first_document() {
  INGOT_TRY_VOID(close_spool());
  INGOT_TRY_VOID(release(first_tokens_, split_of(0)));
  held_ = {};
  spooled_.reset();
  return {};
}

Result<void> SplitRouter::cut_only_document() {
  INGOT_TRY_VOID(close_spool());
  INGOT_TRY_VOID(release(kept_of_one(), train_));
  validation_.begin_document();
  return release(first_tokens_, validation_);
}

Result<std::string> SplitRouter::finish() {
  if (validation_fraction_ <= 0) return std::string("none");
  if (!holding_) return std::string("documents by hash");
  INGOT_TRY_VOID(cut_only_document());
  return std::string("last part of one document");
}

}  // namespace ingot::data
