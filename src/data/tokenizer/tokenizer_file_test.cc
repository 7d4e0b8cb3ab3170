// Files that are wrong, each answered by a sentence that names the place.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * k) & 63];
    }
  }
  return text;
}

// All bytes, then "ab" and "abc".
std::string tiktoken_file() {
  std::string file;
  for (int byte = 0; byte < 256; ++byte) {
    file += base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  }
  return file + base64("ab") + " 256\n" + base64("abc") + " 257\n";
}

std::string tiktoken_error(const std::string& file, std::string_view pattern = "gpt2") {
  const auto result = parse_tiktoken(file, pattern, "f.tiktoken");
  return result ? "" : result.error().message;
}

TEST(TiktokenFileTest, ReadsRanks) {
  const auto tokenizer = parse_tiktoken(tiktoken_file(), "gpt2", "f").value();
  std::vector<int32_t> ids;
  ASSERT_TRUE(tokenizer->encoder()->encode("abcab", ids));
  EXPECT_EQ(ids, (std::vector<int32_t>{257, 256}));
  EXPECT_EQ(tokenizer->end_of_text(), 258);
  EXPECT_EQ(tokenizer->vocab_size(), 259);
}

TEST(TiktokenFileTest, KeepsHoles) {
  const auto tokenizer = parse_tiktoken(tiktoken_file() + base64("cd") + " 300\r\n", "gpt2", "f").value();
  std::vector<int32_t> ids;
  ASSERT_TRUE(tokenizer->encoder()->encode("cd", ids));
  EXPECT_EQ(ids, std::vector<int32_t>{300});
  EXPECT_TRUE(tokenizer->token_bytes(280).empty());
  EXPECT_EQ(tokenizer->end_of_text(), 301);
}

TEST(TiktokenFileTest, NamesFileAndLine) {
  const std::string file = tiktoken_file();
  EXPECT_NE(tiktoken_error("").find("f.tiktoken"), std::string::npos);
  EXPECT_NE(tiktoken_error(file + "YWJj").find("line 259"), std::string::npos);
  EXPECT_NE(tiktoken_error(file + "Y!Jj 258\n").find("base64"), std::string::npos);
  EXPECT_NE(tiktoken_error(file + "YWJ 258\n").find("base64"), std::string::npos);
  EXPECT_NE(tiktoken_error(file + "YWJkZQ== x\n").find("not a rank"), std::string::npos);
  EXPECT_NE(tiktoken_error(file + "YWJkZQ== 99999999\n").find("limit"), std::string::npos);
  EXPECT_NE(tiktoken_error(file + "YWJkZQ== 257\n").find("given twice"), std::string::npos);
  EXPECT_NE(tiktoken_error(file + "YWJj 300\n").find("line 258"),
            std::string::npos);  // where the token is too
  EXPECT_NE(tiktoken_error(file.substr(0, file.find('\n', file.size() / 2))).find("bytes have no token"),
            std::string::npos);
  EXPECT_NE(tiktoken_error(file, "klingon").find("gpt2, cl100k"), std::string::npos);
}

nlohmann::ordered_json valid_json() {
  nlohmann::ordered_json vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab[to_byte_alphabet(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  const auto merges = nlohmann::ordered_json::parse(R"(["a b", ["ab", "c"]])");
  return {{"added_tokens", nlohmann::ordered_json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

std::string json_error(const nlohmann::ordered_json& json) {
  const auto result = parse_hugging_face_json(json.dump(), "t.json");
  if (result) return "no error";
  EXPECT_EQ(result.error().message.find("t.json: "), 0U) << result.error().message;
  return result.error().message;
}

TEST(HuggingFaceFileTest, ReadsBothSpellingsOfMerges) {
  const auto tokenizer = parse_hugging_face_json(valid_json().dump(), "t").value();
  std::vector<int32_t> ids;
  ASSERT_TRUE(tokenizer->encoder()->encode("abcab", ids));
  EXPECT_EQ(ids, (std::vector<int32_t>{257, 256}));
}

TEST(HuggingFaceFileTest, IgnoreMergesLooksUpWholePiecesFirst) {
  auto json = valid_json();
  json["model"]["vocab"]["xyz"] = 258;  // no merge makes it
  const auto plain = parse_hugging_face_json(json.dump(), "t").value();
  json["model"]["ignore_merges"] = true;
  const auto whole = parse_hugging_face_json(json.dump(), "t").value();
  std::vector<int32_t> ids, whole_ids;
  ASSERT_TRUE(plain->encoder()->encode("xyz", ids));
  ASSERT_TRUE(whole->encoder()->encode("xyz", whole_ids));
  EXPECT_EQ(ids, (std::vector<int32_t>{'x', 'y', 'z'}));
  EXPECT_EQ(whole_ids, std::vector<int32_t>{258});
}

TEST(HuggingFaceFileTest, NamesWhatIsDamaged) {
  const std::string text = valid_json().dump();
  const auto truncated = parse_hugging_face_json(text.substr(0, text.size() - 9), "t.json");
  ASSERT_FALSE(truncated);
  EXPECT_NE(truncated.error().message.find("truncated"), std::string::npos);
  auto json = valid_json();
  json["model"]["merges"].push_back("a b");
  EXPECT_NE(json_error(json).find("merges[2] repeats model.merges[0]"), std::string::npos);
  json = valid_json();
  json["model"]["merges"].push_back("b c");
  EXPECT_NE(json_error(json).find("merges[2] needs the token 'bc'"), std::string::npos);
  json = valid_json();
  json["model"]["merges"].push_back("a b c");
  EXPECT_NE(json_error(json).find("merges[2]"), std::string::npos);
  json = valid_json();
  json["model"]["merges"].push_back(7);
  EXPECT_NE(json_error(json).find("merges[2]"), std::string::npos);
  json = valid_json();
  json["model"]["vocab"]["zz"] = 256;
  EXPECT_NE(json_error(json).find("both have the id 256"), std::string::npos);
  json = valid_json();
  json["model"]["vocab"]["zz"] = 1 << 30;
  EXPECT_NE(json_error(json).find("'zz'"), std::string::npos);
  json = valid_json();
  json["model"]["vocab"].erase("a");
  EXPECT_NE(json_error(json).find("'a'"), std::string::npos);
  json = valid_json();
  json["model"]["vocab"].erase("q");
  EXPECT_NE(json_error(json).find("0x71"), std::string::npos);
  json = valid_json();
  json.erase("model");
  EXPECT_NE(json_error(json).find("no model"), std::string::npos);
  json = valid_json();
  json["added_tokens"] = nlohmann::ordered_json::parse(R"([{"id": 97, "content": "<x>", "special": true}])");
  EXPECT_NE(json_error(json).find("the id 97"), std::string::npos);
}

TEST(HuggingFaceFileTest, NamesWhatIsNotSupported) {
  auto json = valid_json();
  json["model"]["type"] = "Unigram";
  EXPECT_NE(json_error(json).find("Unigram"), std::string::npos);
  json = valid_json();
  json["model"]["byte_fallback"] = true;
  EXPECT_NE(json_error(json).find("SentencePiece"), std::string::npos);
  json = valid_json();
  json["model"]["dropout"] = 0.1;
  EXPECT_NE(json_error(json).find("dropout"), std::string::npos);
  json = valid_json();
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_NE(json_error(json).find("Lowercase"), std::string::npos);
  json = valid_json();
  json["pre_tokenizer"] = {{"type", "Whitespace"}};
  EXPECT_NE(json_error(json).find("Whitespace"), std::string::npos);
  json = valid_json();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_NE(json_error(json).find("add_prefix_space"), std::string::npos);
  json = valid_json();
  json["pre_tokenizer"] = nlohmann::ordered_json::parse(
      R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"},
          {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  EXPECT_NE(json_error(json).find("'(a'"), std::string::npos);
  json["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed";
  EXPECT_NE(json_error(json).find("Removed"), std::string::npos);
}

// A literal pattern is not an expression, and a vocabulary that is written is read back the same.
TEST(HuggingFaceFileTest, SplitsSurviveWritingAndReading) {
  auto json = valid_json();
  json["normalizer"] = {{"type", "NFC"}};
  json["pre_tokenizer"] = nlohmann::ordered_json::parse(
      R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"String": "b."}, "behavior": "Isolated"},
          {"type": "Digits", "individual_digits": true},
          {"type": "ByteLevel", "add_prefix_space": false}]})");
  json["added_tokens"] = nlohmann::ordered_json::parse(
      R"([{"id": 300, "content": "<|endoftext|>", "special": true}, {"id": 301, "content": "<x é>", "special": false}])");
  const auto first = parse_hugging_face_json(json.dump(), "t").value();
  const auto second = parse_hugging_face_json(first->to_hugging_face_json(), "again").value();
  EXPECT_EQ(first->fingerprint(), second->fingerprint());
  EXPECT_EQ(second->end_of_text(), 300);
  for (const auto* tokenizer : {first.get(), second.get()}) {
    std::vector<int32_t> ids;
    ASSERT_TRUE(tokenizer->encoder()->encode("abc ab.c<x e\xcc\x81>", ids));
    EXPECT_EQ(ids, (std::vector<int32_t>{257, ' ', 'a', 'b', '.', 'c', 301})) << tokenizer->decode(ids);
  }
}

}  // namespace
}  // namespace ingot::data
