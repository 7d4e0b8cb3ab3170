// Ids against tiktoken and Hugging Face tokenizers: testdata/golden.json, made by
// tools/golden/tokenizer_ids.py.

#include <gtest/gtest.h>
#include <zstd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {
namespace {

const std::string kShared = std::string(INGOT_SHARED_DIR) + "/data/";

// The file, or what its .zst holds.
std::string read_shared(const std::string& name) {
  if (path_exists(kShared + name)) return read_file(kShared + name).value();
  const std::string packed = read_file(kShared + name + ".zst").value();
  std::string bytes;
  ZSTD_DCtx* context = ZSTD_createDCtx();
  std::string block(ZSTD_DStreamOutSize(), '\0');
  for (ZSTD_inBuffer in{packed.data(), packed.size(), 0}; in.pos < in.size;) {
    ZSTD_outBuffer out{block.data(), block.size(), 0};
    INGOT_CHECK(!ZSTD_isError(ZSTD_decompressStream(context, &out, &in)), "{} is damaged", name);
    bytes.append(block, 0, out.pos);
  }
  ZSTD_freeDCtx(context);
  return bytes;
}

std::string fnv_hex(const std::vector<int32_t>& ids) {
  uint64_t value = 0xcbf29ce484222325;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8)
      value = (value ^ (static_cast<uint32_t>(id) >> shift & 255)) * 0x100000001b3;
  }
  return fmt::format("{:016x}", value);
}

std::string case_text(const nlohmann::json& entry) {
  if (entry.contains("file")) {
    static std::map<std::string, std::string> files;
    const std::string name = entry["file"];
    if (!files.contains(name)) files[name] = read_shared(name);
    return files[name].substr(entry["begin"], entry["bytes"]);
  }
  std::string text;
  for (int i = 0; i < entry.value("repeat", 1); ++i) text += entry["text"].get<std::string>();
  return text;
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, IdsEqualTheReferenceImplementation) {
  const std::string name = GetParam();
  const std::string file = name + (name.ends_with("_base") ? ".tiktoken" : ".tokenizer.json");
  if (!path_exists(kShared + "tokenizers/" + file + ".zst")) {
    GTEST_SKIP() << "the vocabulary " << file << " is not there; ids cannot be compared";
  }
  const std::string bytes = read_shared("tokenizers/" + file);
  auto tokenizer =
      name.ends_with("_base") ? parse_tiktoken(bytes, name, file) : parse_hugging_face_json(bytes, file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto encoder = (*tokenizer)->encoder();
  const auto golden = nlohmann::json::parse(
      read_file(std::string(INGOT_SOURCE_DIR) + "/src/data/tokenizer/testdata/golden.json").value());
  const auto& expected = golden["ids"][name];
  ASSERT_EQ(expected.size(), golden["cases"].size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string text = case_text(golden["cases"][i]);
    std::vector<int32_t> ids;
    ASSERT_TRUE(encoder->encode(text, ids));
    const std::string where = golden["cases"][i]["name"];
    if (expected[i].is_array()) {
      EXPECT_EQ(ids, expected[i].get<std::vector<int32_t>>()) << where;
    } else {
      EXPECT_EQ(ids.size(), expected[i]["n"].get<size_t>()) << where;
      EXPECT_EQ(fnv_hex(ids), expected[i]["fnv"].get<std::string>()) << where;
    }
    if (name != "qwen3") {  // which normalizes
      EXPECT_EQ((*tokenizer)->decode(ids), text) << where;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, GoldenTest,
                         testing::Values("r50k_base", "cl100k_base", "o200k_base", "qwen3", "llama3_1",
                                         "deepseek_v3"),
                         [](const auto& test) { return std::string(test.param); });

TEST(RealVocabularyTest, SentencePieceIsRefusedWithASentence) {
  if (!path_exists(kShared + "tokenizers/llama2.tokenizer.json.zst")) {
    GTEST_SKIP() << "llama2.tokenizer.json is not there";
  }
  const auto result = parse_hugging_face_json(read_shared("tokenizers/llama2.tokenizer.json"), "llama2");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("SentencePiece"), std::string::npos) << result.error().message;
}

TEST(RealVocabularyTest, ExportIsReadBackWithTheSameIds) {
  if (!path_exists(kShared + "tokenizers/r50k_base.tiktoken.zst"))
    GTEST_SKIP() << "r50k_base.tiktoken is not there";
  const auto first = parse_tiktoken(read_shared("tokenizers/r50k_base.tiktoken"), "gpt2", "r50k").value();
  EXPECT_EQ(first->vocab_size(), 50257);
  EXPECT_EQ(first->end_of_text(), 50256);
  const auto second = parse_hugging_face_json(first->to_hugging_face_json(), "exported").value();
  EXPECT_EQ(first->fingerprint(), second->fingerprint());
  EXPECT_EQ(second->end_of_text(), 50256);
  const std::string text = read_shared("tinyshakespeare.txt").substr(0, 100000);
  std::vector<int32_t> ids, again;
  ASSERT_TRUE(first->encoder()->encode(text, ids));
  ASSERT_TRUE(second->encoder()->encode(text, again));
  EXPECT_EQ(ids, again);
}

// The merges behind GPT-2's ranks are known: vocab.bpe is the list that the ranks were made of.
TEST(RealVocabularyTest, MergesOfRanksAreThePublishedOnes) {
  if (!path_exists(kShared + "tokenizers/gpt2-vocab.bpe.zst")) GTEST_SKIP() << "gpt2-vocab.bpe is not there";
  const auto tokenizer = parse_tiktoken(read_shared("tokenizers/r50k_base.tiktoken"), "gpt2", "r50k").value();
  const auto json = nlohmann::json::parse(tokenizer->to_hugging_face_json());
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : json["model"]["merges"]) merges += merge.get<std::string>() + "\n";
  EXPECT_EQ(json["model"]["merges"].size(), 50000U);
  EXPECT_TRUE(merges == read_shared("tokenizers/gpt2-vocab.bpe"));
}

}  // namespace
}  // namespace ingot::data
