#include "data/token_shard.h"

#include "base/hash.h"
#include "data/test_folder.h"
#include "data/token_shard_layout.h"

namespace ingot::data {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

std::string some_shard(const TestFolder& folder, int64_t tokens, int64_t vocab) {
  write_shard((folder / "s.tok"), counted_tokens(tokens, vocab), {0, tokens / 3, tokens - 1}, vocab);
  return slurp((folder / "s.tok"));
}

TEST(TokenShard, RoundTripInBothWidths) {
  const TestFolder folder;
  for (const int64_t vocab : {257, 65536, 65537, 200000}) {
    const std::vector<int32_t> ids = counted_tokens(9001, vocab);
    write_shard((folder / "s.tok"), ids, {0, 3000, 9000}, vocab);
    const auto shard = TokenShard::open((folder / "s.tok"));
    ASSERT_TRUE(shard) << shard.error().message;
    EXPECT_EQ(shard->info().tokens, 9001);
    EXPECT_EQ(shard->info().token_bytes, vocab <= 65536 ? 2 : 4);
    EXPECT_EQ(shard->info().documents, 3);
    EXPECT_EQ(shard->info().text_bytes, 27003);
    EXPECT_EQ(shard->info().tokenizer_fingerprint, 0xABCDEFu);
    EXPECT_EQ(shard->document_starts()[1], 3000u);
    std::vector<int32_t> all(ids.size());
    ASSERT_TRUE(shard->read(0, all));
    EXPECT_EQ(all, ids);
    std::vector<int32_t> part(77);
    ASSERT_TRUE(shard->read(2040, part));
    EXPECT_EQ(part, std::vector<int32_t>(ids.begin() + 2040, ids.begin() + 2117));
    EXPECT_TRUE(shard->verify().empty());
  }
}

TEST(TokenShard, HashIsOfTheWholeFileAndBytesDoNotDependOnAppends) {
  const TestFolder folder;
  const std::vector<int32_t> ids = counted_tokens(10000, 300);
  std::string first;
  for (const size_t step : {1u, 7u, 4096u, 10000u}) {
    auto writer = TokenShardWriter::create((folder / "s.tok"), {300, 5, 4096});
    ASSERT_TRUE(writer);
    writer->begin_document();
    for (size_t at = 0; at < ids.size(); at += step) {
      ASSERT_TRUE(writer->append(std::span(ids).subspan(at, std::min(step, ids.size() - at))));
    }
    const auto hash = writer->finish();
    ASSERT_TRUE(hash);
    const std::string bytes = slurp((folder / "s.tok"));
    EXPECT_EQ(*hash, hash64(bytes));
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

TEST(TokenShard, EmptyShardAndUnalignedMemory) {
  const TestFolder folder;
  write_shard((folder / "e.tok"), {}, {}, 300);
  const auto empty = TokenShard::open((folder / "e.tok"));
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_EQ(empty->info().tokens, 0);
  const std::string moved = "x" + some_shard(folder, 5000, 300);
  const auto shard = TokenShard::parse(as_bytes(moved).subspan(1), "moved");
  ASSERT_TRUE(shard) << shard.error().message;
  EXPECT_EQ(shard->document_starts()[2], 4999u);
  EXPECT_TRUE(shard->verify().empty());
}

TEST(TokenShard, EveryTruncationIsRefused) {
  const TestFolder folder;
  const std::string bytes = some_shard(folder, 3001, 300);
  for (size_t size = 0; size < bytes.size(); size += size < 100 || size > bytes.size() - 200 ? 1 : 97) {
    const std::string torn = bytes.substr(0, size);
    const auto shard = TokenShard::parse(as_bytes(torn), "data/train-0003.tok");
    ASSERT_FALSE(shard) << size;
    EXPECT_EQ(shard.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(shard.error().message.find("data/train-0003.tok"), std::string::npos);
  }
  EXPECT_FALSE(TokenShard::parse(as_bytes(bytes + "x"), "longer"));
}

TEST(TokenShard, EveryFlippedByteOutsidePaddingIsFound) {
  const TestFolder folder;
  const std::string bytes = some_shard(folder, 3001, 300);
  const size_t data_end = 4096 + 3001 * 2;
  for (size_t at = 0; at < bytes.size(); at += at < 60 || at > data_end ? 1 : 61) {
    if ((at >= 56 && at < 4096) || (at >= data_end && at < data_end + 6)) continue;  // unused bytes
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x40);
    const auto shard = TokenShard::parse(as_bytes(flipped), "s.tok");
    const bool reserved = at >= bytes.size() - 24 && at < bytes.size() - 16;
    if (shard) {
      EXPECT_EQ(shard->verify().size(), 1u) << at;
      std::vector<int32_t> out(3001);
      const auto read = shard->read(0, out);
      ASSERT_FALSE(read) << at;
      EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    } else {
      EXPECT_TRUE(at < 4096 || at >= data_end || reserved) << at;
    }
  }
}

TEST(TokenShard, MessageNamesShardBlockAndBytes) {
  const TestFolder folder;
  std::string bytes = some_shard(folder, 30000, 300);
  bytes[4096 + 3 * 4096 + 100] ^= 1;
  const auto shard = TokenShard::parse(as_bytes(bytes), "data/train-00003.tok");
  ASSERT_TRUE(shard);
  std::vector<int32_t> out(2048);
  EXPECT_TRUE(shard->read(2 * 2048, out));
  EXPECT_TRUE(shard->read(4 * 2048, out));
  for (int again = 0; again < 2; ++again) {
    const auto read = shard->read(3 * 2048 - 1, out);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message.find(
                  "data/train-00003.tok: checksum of block 3 is wrong (bytes 16,384 to 20,479). "
                  "The file changed or the disk is failing. "),
              0u)
        << read.error().message;
  }
  EXPECT_EQ(shard->verify().size(), 1u);
}

// Sizes that overflow, with checksums made right: only the bounds can refuse them.
TEST(TokenShard, ClaimsAreBoundedByTheFile) {
  const TestFolder folder;
  const std::string bytes = some_shard(folder, 3001, 300);
  const size_t footer = bytes.size() - 64;
  for (const uint64_t claim : {uint64_t{3005}, uint64_t{1} << 62, ~uint64_t{0}, (uint64_t{1} << 63) + 3001}) {
    for (const size_t field : {size_t{0}, size_t{8}, size_t{16}}) {
      std::string wrong = bytes;
      std::memcpy(wrong.data() + footer + field, &claim, sizeof claim);
      const uint64_t hash = hash64(std::string_view(wrong).substr(footer, 48));
      std::memcpy(wrong.data() + footer + 48, &hash, sizeof hash);
      const auto shard = TokenShard::parse(as_bytes(wrong), "s.tok");
      if (field == 16 && claim <= uint64_t{1} << 62) continue;  // bytes of text are not bounded by the file
      EXPECT_FALSE(shard) << claim << " in " << field;
    }
  }
}

TEST(TokenShard, TokenAboveTheVocabularyIsFound) {
  const TestFolder folder;
  const std::string bytes = some_shard(folder, 3001, 300);
  std::string wrong = bytes;
  const uint64_t vocab = 299;  // token 299 occurs
  std::memcpy(wrong.data() + 32, &vocab, sizeof vocab);
  const uint64_t hash = hash64(std::string_view(wrong).substr(0, 48));
  std::memcpy(wrong.data() + 48, &hash, sizeof hash);
  const size_t footer = wrong.size() - 64;
  std::memcpy(wrong.data() + footer + 32, &hash, sizeof hash);
  const uint64_t footer_hash = hash64(std::string_view(wrong).substr(footer, 48));
  std::memcpy(wrong.data() + footer + 48, &footer_hash, sizeof footer_hash);
  const auto shard = TokenShard::parse(as_bytes(wrong), "s.tok");
  ASSERT_TRUE(shard) << shard.error().message;
  std::vector<int32_t> out(10);
  const auto read = shard->read(0, out);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("not below the vocabulary of 299"), std::string::npos);
}

TEST(TokenShard, ForeignAndNewerFiles) {
  const TestFolder folder;
  const auto text =
      TokenShard::open(folder.write("a.tok", "some text, not a shard at all, and long enough for it"));
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("does not begin with INGOTTOK"), std::string::npos);
  std::string bytes = some_shard(folder, 100, 300);
  bytes[8] = 9;
  const auto newer = TokenShard::parse(as_bytes(bytes), "s.tok");
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().message.find("format version 9"), std::string::npos);
}

TEST(TokenShard, NothingIsThereBeforeFinish) {
  const TestFolder folder;
  {
    auto writer = TokenShardWriter::create((folder / "s.tok"), {300, 5, 4096});
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->append(counted_tokens(5000, 300)));
  }
  EXPECT_FALSE(std::filesystem::exists((folder / "s.tok")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace ingot::data
