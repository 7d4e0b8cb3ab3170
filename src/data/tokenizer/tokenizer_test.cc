#include "data/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/file.h"
#include "data/tokenizer/bpe_encoder.h"
#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/nfc.h"
#include "data/tokenizer/train_bpe.h"

namespace ingot::data {
namespace {

using Ids = std::vector<int32_t>;

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  auto result = tokenizer.encoder()->encode(text, ids);
  EXPECT_TRUE(result) << result.error().message;
  return ids;
}

std::unique_ptr<Tokenizer> trained_on(const std::string& text, int32_t vocab_size,
                                      const std::string& pattern) {
  BpeTrainingOptions options;
  options.vocab_size = vocab_size;
  options.pattern = pattern;
  bool given = false;
  const TextSource source = [&](std::string& out) -> Result<bool> {
    out = text;
    return !std::exchange(given, true);
  };
  return train_bpe(source, options).value();
}

std::string chinese_text() {
  const std::vector<std::string> words = {"天地", "玄黄", "宇宙", "洪荒", "日月", "盈昃",
                                          "辰宿", "列张", "寒来", "暑往", "，",   "。\n"};
  std::mt19937 random(5);
  std::string text;
  for (int i = 0; i < 4000; ++i) text += words[random() % words.size()];
  return text;
}

TEST(ByteTokenizerTest, IdsAreBytes) {
  const auto tokenizer = byte_tokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->end_of_text(), 256);
  EXPECT_EQ(encode(*tokenizer, std::string_view("a\0\xff", 3)), (Ids{97, 0, 255}));
  EXPECT_EQ(tokenizer->decode(Ids{97, 0, 255, 300, -1}), std::string("a\0\xff", 3));
  const auto again = parse_hugging_face_json(tokenizer->to_hugging_face_json(), "bytes").value();
  EXPECT_EQ(again->kind(), "bytes");
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
}

TEST(CharacterTokenizerTest, VocabularyIsTheSortedSet) {
  CharacterVocabulary vocabulary;
  ASSERT_TRUE(vocabulary.add("ba天a\n"));
  ASSERT_TRUE(vocabulary.add("c"));
  const auto tokenizer = vocabulary.build().value();
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_EQ(tokenizer->end_of_text(), std::nullopt);
  EXPECT_EQ(encode(*tokenizer, "\nabc天"), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(tokenizer->decode(Ids{4, 0}), "天\n");
  const auto again = parse_hugging_face_json(tokenizer->to_hugging_face_json(), "characters").value();
  EXPECT_EQ(again->kind(), "characters");
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
}

TEST(CharacterTokenizerTest, RefusesWhatItCannotGiveBack) {
  CharacterVocabulary vocabulary;
  EXPECT_FALSE(vocabulary.build());
  EXPECT_NE(vocabulary.add("ab\xff").error().message.find("byte 2"), std::string::npos);
  ASSERT_TRUE(vocabulary.add("ab"));
  const auto tokenizer = vocabulary.build().value();
  Ids ids{7};
  const auto unknown = tokenizer->encoder()->encode("abx", ids);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("U+0078"), std::string::npos) << unknown.error().message;
  EXPECT_EQ(ids, Ids{7});
  EXPECT_FALSE(tokenizer->encoder()->encode("a\xff", ids));
}

TEST(CharacterTokenizerTest, TinyShakespeareHas65) {
  const std::string path = std::string(INGOT_SHARED_DIR) + "/data/tinyshakespeare.txt";
  if (!path_exists(path)) GTEST_SKIP() << "tinyshakespeare.txt is not there";
  CharacterVocabulary vocabulary;
  ASSERT_TRUE(vocabulary.add(read_file(path).value()));
  EXPECT_EQ(vocabulary.build().value()->vocab_size(), 65);
}

TEST(LoadTokenizerTest, NamesWhatIsWrong) {
  EXPECT_NE(load_tokenizer("chars").error().message.find("corpus"), std::string::npos);
  EXPECT_NE(load_tokenizer("/nowhere/x.tiktoken").error().message.find("/nowhere/x.tiktoken"),
            std::string::npos);
  EXPECT_EQ(load_tokenizer("bytes").value()->kind(), "bytes");
  const std::string path = testing::TempDir() + "/mystery.tiktoken";
  ASSERT_TRUE(write_file_atomically(path, "IQ== 0\n"));
  EXPECT_NE(load_tokenizer(path).error().message.find("cl100k_base"), std::string::npos);
  EXPECT_NE(load_tokenizer(path, {"gpt2"}).error().message.find("255 of the 256 bytes"), std::string::npos);
}

// Any bytes come back, whatever the pattern and wherever they are cut off.
TEST(BpeTokenizerTest, DecodeOfEncodeIsTheText) {
  const std::string corpus =
      "the cat's 123 hat\n\nThe CAT sat, é 天地天地 \xf0\x9f\x98\x80 the the hat hat\n";
  std::mt19937 random(11);
  for (const std::string pattern : {"gpt2", "llama3", "qwen2", "o200k"}) {
    const auto tokenizer = trained_on(corpus + corpus + corpus, 320, pattern);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (size_t i = random() % 200; i > 0; --i) {
        if (random() % 3 == 0) {
          text += static_cast<char>(random() % 256);
        } else {
          text += corpus.substr(random() % corpus.size(), random() % 9);
        }
      }
      EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text)), text);
    }
    EXPECT_EQ(encode(*tokenizer, ""), Ids{});
  }
}

// Caches, batches and the cutting of wide pieces change nothing: each piece alone, by the model, gives the
// same.
TEST(BpePieceEncoderTest, EqualsMergingEachPiece) {
  const std::string corpus =
      chinese_text() + "some words and 12 numbers, and a verylongwordthatisnotinthecache\n";
  const auto tokenizer = trained_on(corpus, 600, "llama3");
  const auto json = parse_hugging_face_json(tokenizer->to_hugging_face_json(), "x").value();
  std::vector<std::string> tokens;
  for (int32_t id = 0; id < json->vocab_size(); ++id) tokens.emplace_back(json->token_bytes(id));
  std::vector<uint8_t> missing;
  const auto byte_ids = BpeModel::byte_ids(tokens, missing);
  const BpeModel ranked(tokens, split_ranks({tokens.data(), tokens.size() - 1}, byte_ids), true);
  BpePieceEncoder encoder(ranked);
  MergeScratch scratch;
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    std::vector<size_t> lengths;
    for (int i = 0; i < 300; ++i) {
      size_t bytes = 1 + random() % (i % 50 == 0 ? 200 : 30);
      const size_t at = random() % (corpus.size() - 200);
      text += corpus.substr(at, bytes);
      lengths.push_back(bytes);
    }
    std::vector<const char*> ends;
    std::vector<int32_t> expected;
    const char* p = text.data();
    for (const size_t bytes : lengths) {
      std::vector<uint32_t> ids(bytes);
      const uint32_t* end = ranked.encode_piece(p, bytes, ids.data(), scratch);
      expected.insert(expected.end(), ids.data(), ids.data() + (end - ids.data()));
      p += bytes;
      ends.push_back(p);
    }
    std::vector<int32_t> found;
    encoder.encode(text.data(), ends, text.data() + text.size(), found);
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

TEST(BpeTokenizerTest, AddedTokensAreFoundUnlessSpecial) {
  BpeDefinition definition;
  for (int byte = 0; byte < 256; ++byte) definition.tokens.emplace_back(1, static_cast<char>(byte));
  definition.pattern = Pattern::kGpt2;
  definition.added = {{256, "<a>", false, false}, {257, "<a>b", false, false}, {258, "<s>", true, false}};
  const auto tokenizer = make_bpe_tokenizer(definition).value();
  EXPECT_EQ(encode(*tokenizer, "x<a>b<a>"), (Ids{'x', 257, 256}));
  EXPECT_EQ(encode(*tokenizer, "<s>"), (Ids{'<', 's', '>'}));
  EXPECT_EQ(tokenizer->token_bytes(258), "<s>");
}

TEST(BpeTokenizerTest, AWordOfAMebibyteIsQuick) {
  const auto tokenizer = trained_on(std::string(5000, 'a') + " " + std::string(3000, 'b'), 300, "gpt2");
  const auto encoder = tokenizer->encoder();
  Ids ids;
  const auto seconds = [&](const std::string& word) {
    ids.clear();
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(encoder->encode(word, ids));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(tokenizer->decode(ids), word);
    return taken.count();
  };
  const std::string one_mebibyte(1 << 20, 'a');
  const std::string two_mebibytes(2 << 20, 'a');
  double one = 1e9, two = 1e9;
  for (int round = 0; round < 12; ++round) {  // alternating, so that a busy moment strikes both
    two = std::min(two, seconds(two_mebibytes));
    one = std::min(one, seconds(one_mebibyte));
  }
  RecordProperty("one_mebibyte_seconds", std::to_string(one));
  RecordProperty("two_mebibytes_seconds", std::to_string(two));
  EXPECT_LT(one, 1.0);
  EXPECT_LT(two, 2.5 * one);
}

std::string nfc(std::string_view text) {
  std::string buffer;
  return std::string(to_nfc(text, buffer));
}

TEST(NfcTest, ComposesAndOrders) {
  EXPECT_EQ(nfc("plain"), "plain");
  EXPECT_EQ(nfc("e\xcc\x81x"), "\xc3\xa9x");
  EXPECT_EQ(nfc("a e\xcc\x81"), "a \xc3\xa9");
  EXPECT_EQ(nfc("q\xcc\x87\xcc\xa3"), "q\xcc\xa3\xcc\x87");                // marks are ordered
  EXPECT_EQ(nfc("\xe1\xba\x9b\xcc\xa3"), "\xe1\xba\x9b\xcc\xa3");          // UAX #15, figure 6
  EXPECT_EQ(nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), "\xed\x95\x9c");  // Hangul by arithmetic
  EXPECT_EQ(nfc("\xe2\x84\xab"), "\xc3\x85");                              // a singleton
  EXPECT_EQ(nfc("\xe0\xa5\x98"), "\xe0\xa4\x95\xe0\xa4\xbc");              // excluded from composition
  EXPECT_EQ(nfc("e\xff\xcc\x81"), "e\xff\xcc\x81");                        // an invalid byte separates
  EXPECT_EQ(nfc("\xcc\x81"
                "a\xcc\x80\xcc\x81\xcc"),
            "\xcc\x81\xc3\xa0\xcc\x81\xcc");  // begins and ends badly
}

}  // namespace
}  // namespace ingot::data
