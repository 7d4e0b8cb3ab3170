#include "data/dataset.h"

#include "data/test_folder.h"

namespace ingot::data {
namespace {

TEST(TokenStream, JoinsShardsOfAnySize) {
  const TestFolder folder;
  const std::vector<int32_t> ids = counted_tokens(5000, 300);
  const std::vector<int64_t> starts = {0, 999, 1000, 2500, 4999};
  std::vector<std::string> paths;
  int64_t first = 0;
  for (const int64_t size : {1, 999, 0, 3500, 500}) {
    std::vector<int64_t> within;
    for (const int64_t start : starts) {
      if (start >= first && start < first + size) within.push_back(start - first);
    }
    paths.push_back(folder / ("s" + std::to_string(paths.size()) + ".tok"));
    write_shard(paths.back(), {ids.begin() + first, ids.begin() + first + size}, within, 300);
    first += size;
  }
  const auto stream = TokenStream::open(paths);
  ASSERT_TRUE(stream) << stream.error().message;
  EXPECT_EQ(stream->tokens(), 5000);
  EXPECT_EQ(stream->documents(), 5);
  EXPECT_EQ(stream->samples(7), 714);
  EXPECT_EQ(stream->samples(4999), 1);
  EXPECT_EQ(stream->samples(5000), 0);
  std::vector<int32_t> out(5000);
  ASSERT_TRUE(stream->read(0, out));
  EXPECT_EQ(out, ids);
  for (size_t d = 0; d < starts.size(); ++d) EXPECT_EQ(stream->document(static_cast<int64_t>(d)), starts[d]);
  EXPECT_EQ(stream->document_start(998), 0);
  EXPECT_EQ(stream->document_start(999), 999);
  EXPECT_EQ(stream->document_start(2499), 1000);
  EXPECT_EQ(stream->document_start(4998), 2500);
  std::vector<int64_t> found(8, -1);
  EXPECT_EQ(stream->document_starts_between(0, 2500, found), 2);
  EXPECT_EQ(found[0], 999);
  EXPECT_EQ(found[1], 1000);
  EXPECT_EQ(stream->document_starts_between(1000, 2501, found), 1);
  EXPECT_EQ(found[0], 2500);
}

TEST(TokenStream, ShardsOfTwoTokenizersAreRefused) {
  const TestFolder folder;
  write_shard((folder / "a.tok"), counted_tokens(10, 300), {0}, 300);
  write_shard((folder / "b.tok"), counted_tokens(10, 301), {0}, 301);
  const auto stream = TokenStream::open({(folder / "a.tok"), (folder / "b.tok")});
  ASSERT_FALSE(stream);
  EXPECT_NE(stream.error().message.find("different tokenizers"), std::string::npos);
}

DatasetManifest small_manifest() {
  DatasetManifest manifest;
  manifest.tokenizer_name = "made up \"quoted\"";
  manifest.tokenizer_fingerprint = 0xABCDEF;
  manifest.vocab_size = 300;
  manifest.seed = ~uint64_t{0};
  manifest.validation_rule = "none";
  manifest.text_field = "text";
  manifest.train.tokens = 100;
  manifest.train.documents = 1;
  manifest.train.shards = {{"train-00000.tok", 100, 1, 0, 0xFFFFFFFFFFFFFFFFu}};
  return manifest;
}

TEST(DatasetManifest, RoundTrip) {
  const DatasetManifest manifest = small_manifest();
  const auto again = parse_manifest(to_json(manifest), "dataset.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(manifest));
  EXPECT_EQ(again->seed, ~uint64_t{0});
  EXPECT_EQ(again->train.shards[0].hash, 0xFFFFFFFFFFFFFFFFu);
}

TEST(DatasetManifest, DamageIsNamed) {
  const std::string json = to_json(small_manifest());
  const auto changed = [&json](const std::string& from, const std::string& to) {
    std::string text = json;
    text.replace(text.find(from), from.size(), to);
    const auto parsed = parse_manifest(text, "dataset.json");
    return parsed ? std::string() : parsed.error().message;
  };
  EXPECT_NE(changed("\"format_version\": 1", "\"format_version\": 2").find("format version 2"),
            std::string::npos);
  EXPECT_NE(changed("\"tokens\": 100", "\"tokens\": -1").find("train.tokens must be"), std::string::npos);
  EXPECT_NE(changed("\"tokens\": 100", "\"tokens\": 1e3").find("train.tokens must be"), std::string::npos);
  EXPECT_NE(changed("train-00000.tok", "../escape.tok").find("train.shards[0].file"), std::string::npos);
  EXPECT_NE(changed("\"vocab_size\"", "\"vocab\"").find("vocab_size is not there"), std::string::npos);
  EXPECT_NE(changed("ffffffffffffffff", "fffffffffffffffg").find("xxh3"), std::string::npos);
  for (size_t size = 0; size + 2 < json.size(); size += 13) {
    EXPECT_FALSE(parse_manifest(json.substr(0, size), "dataset.json"));
  }
}

TEST(Dataset, OpensAFolderAndNamesWhatIsWrong) {
  const TestFolder folder;
  const std::vector<int32_t> ids = counted_tokens(100, 300);
  write_shard((folder / "train-00000.tok"), ids, {0}, 300);
  EXPECT_EQ(Dataset::open(folder.path()).error().code, ErrorCode::kNotFound);
  folder.write("dataset.json", to_json(small_manifest()));
  const auto dataset = Dataset::open(folder.path());
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_TRUE(is_dataset_folder(folder.path()));
  EXPECT_EQ(dataset->train().tokens(), 100);
  EXPECT_EQ(dataset->validation().tokens(), 0);
  EXPECT_TRUE(dataset->check_vocab(300));
  EXPECT_TRUE(dataset->check_vocab(384));
  const auto small = dataset->check_vocab(256);
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().message.find("has a vocabulary of 300"), std::string::npos);
  EXPECT_TRUE(dataset->check_seq_len(99));
  EXPECT_FALSE(dataset->check_seq_len(100));

  write_shard((folder / "train-00000.tok"), counted_tokens(101, 300), {0}, 300);
  EXPECT_NE(Dataset::open(folder.path()).error().message.find("does not fit the dataset.json"),
            std::string::npos);
  std::filesystem::remove((folder / "train-00000.tok"));
  EXPECT_NE(Dataset::open(folder.path()).error().message.find("is missing"), std::string::npos);
}

}  // namespace
}  // namespace ingot::data
