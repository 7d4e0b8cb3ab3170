#include "data/prepared.h"

#include "data/test_folder.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {
namespace {

std::string prose(size_t sentences) {
  std::string text;
  for (size_t i = 0; i < sentences; ++i) {
    text += "the quick brown fox number " + std::to_string(i * 7919 % 10007) + " jumps over the lazy dog.\n";
  }
  return text;
}

class PrepareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    text_ = prose(3000);
    options_.train = {folder_.write("book.txt", text_)};
    options_.cache_folder = (folder_ / "run/data");
    options_.threads = 2;
    options_.validation_fraction = 0.1;
  }
  PreparedData prepare() {
    auto prepared = prepare_data(options_);
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(prepared).value() : PreparedData();
  }
  TestFolder folder_;
  std::string text_;
  PrepareOptions options_;
};

TEST_F(PrepareTest, TextIsBuiltOnceAndThenFound) {
  const PreparedData first = prepare();
  EXPECT_TRUE(first.built);
  EXPECT_EQ(first.tokenizer->kind(), "bpe");
  EXPECT_LE(first.tokenizer->vocab_size(), 512);
  EXPECT_GT(first.dataset.validation().tokens(), 100);
  const PreparedData second = prepare();
  EXPECT_FALSE(second.built);
  EXPECT_EQ(second.tokenizer->fingerprint(), first.tokenizer->fingerprint());
  EXPECT_EQ(second.dataset.folder(), first.dataset.folder());

  options_.validation_fraction = 0.2;
  EXPECT_TRUE(prepare().built);
  options_.validation_fraction = 0.1;
  folder_.write("book.txt", text_ + "more text\n");
  EXPECT_TRUE(prepare().built);
}

TEST_F(PrepareTest, DamagedCacheIsBuiltAgain) {
  const PreparedData first = prepare();
  const std::string shard = first.dataset.folder() + "/train-00000.tok";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 9);
  const PreparedData second = prepare();
  EXPECT_TRUE(second.built);
  ASSERT_FALSE(second.notes.empty());
  EXPECT_NE(second.notes[0].find("built again"), std::string::npos);
}

TEST_F(PrepareTest, CharactersAndBytes) {
  options_.tokenizer = "chars";
  const PreparedData characters = prepare();
  EXPECT_EQ(characters.tokenizer->kind(), "characters");
  EXPECT_EQ(characters.dataset.train().tokens() + characters.dataset.validation().tokens(),
            static_cast<int64_t>(text_.size()));
  EXPECT_FALSE(prepare().built);
  options_.tokenizer = "bytes";
  EXPECT_EQ(prepare().dataset.manifest().vocab_size, byte_tokenizer()->vocab_size());
}

TEST_F(PrepareTest, BuiltFolderIsOpenedWithItsOwnTokenizer) {
  options_.tokenizer = "bytes";
  const std::string folder = prepare().dataset.folder();
  options_.train = {folder};
  options_.tokenizer = "auto";
  const PreparedData opened = prepare();
  EXPECT_FALSE(opened.built);
  EXPECT_EQ(opened.tokenizer->kind(), "bytes");
  EXPECT_EQ(opened.tokenizer->name(), "bytes");

  options_.validation = {folder_.write("v.txt", "validation text")};
  const PreparedData with_text = prepare();
  EXPECT_EQ(with_text.dataset.validation().tokens(), 16);
  options_.validation = {folder};
  EXPECT_EQ(prepare().dataset.validation().tokens(), opened.dataset.train().tokens());

  CharacterVocabulary vocabulary;
  ASSERT_TRUE(vocabulary.add(text_));
  ASSERT_TRUE(save_tokenizer(**vocabulary.build(), (folder_ / "chars.json")));
  options_.tokenizer = (folder_ / "chars.json");
  const auto other = prepare_data(options_);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("gives other ids"), std::string::npos) << other.error().message;
}

TEST_F(PrepareTest, ValidationTextOfItsOwn) {
  options_.tokenizer = "bytes";
  options_.validation = {folder_.write("v.txt", "validation text")};
  const PreparedData prepared = prepare();
  EXPECT_EQ(prepared.dataset.train().tokens(), static_cast<int64_t>(text_.size()) + 1);
  EXPECT_EQ(prepared.dataset.validation().tokens(), 16);
}

TEST_F(PrepareTest, MixedSourcesAreRefused) {
  options_.tokenizer = "bytes";
  const std::string folder = prepare().dataset.folder();
  options_.validation = {folder};
  EXPECT_NE(prepare_data(options_).error().message.find("Give both as text"), std::string::npos);
  options_.validation.clear();
  options_.train.push_back(folder);
  EXPECT_NE(prepare_data(options_).error().message.find("one such folder"), std::string::npos);
  options_.train = {(folder_ / "none.txt")};
  EXPECT_EQ(prepare_data(options_).error().code, ErrorCode::kNotFound);
}

TEST(AutomaticVocab, PowersOfTwo) {
  EXPECT_EQ(automatic_vocab(0), 512);
  EXPECT_EQ(automatic_vocab(1'115'394), 1024);
  EXPECT_EQ(automatic_vocab(5'600'000), 4096);
  EXPECT_EQ(automatic_vocab(int64_t{1} << 50), 32768);
}

}  // namespace
}  // namespace ingot::data
