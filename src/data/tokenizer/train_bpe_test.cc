#include "data/tokenizer/train_bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/file.h"
#include "data/text_cut.h"
#include "data/tokenizer/scanner.h"

namespace ingot::data {
namespace {

TextSource source_of(std::vector<std::string> texts) {
  return [texts = std::move(texts), i = size_t{0}](std::string& text) mutable -> Result<bool> {
    if (i == texts.size()) return false;
    text = texts[i++];
    return true;
  };
}

// Words of few letters, with runs and repeats, so that pairs overlap and counts tie.
std::string made_up_text(uint32_t seed, size_t words) {
  std::mt19937 random(seed);
  std::string text;
  for (size_t i = 0; i < words; ++i) {
    const size_t length = 1 + random() % 9;
    for (size_t k = 0; k < length; ++k) text += static_cast<char>("aaaabbcde"[random() % 9]);
    text += random() % 20 == 0 ? "\n\n" : " ";
  }
  return text;
}

// Training by the definition: count every pair of every piece anew for each merge.
std::vector<std::string> naive_tokens(const std::string& text, size_t merges, int64_t min_frequency) {
  std::map<std::string, int64_t> counts;
  std::vector<const char*> ends(text.size());
  const size_t pieces =
      scan_function(Pattern::kLlama3)(text.data(), text.data() + text.size(), ends.data(), ends.size());
  const char* begin = text.data();
  for (size_t i = 0; i < pieces; begin = ends[i++]) ++counts[std::string(begin, ends[i])];
  std::vector<std::pair<std::vector<uint32_t>, int64_t>> words;
  for (const auto& [word, count] : counts) {
    words.emplace_back();
    for (const char c : word) words.back().first.push_back(static_cast<uint8_t>(c));
    words.back().second = count;
  }
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (size_t merge = 0; merge < merges; ++merge) {
    std::map<std::pair<uint32_t, uint32_t>, int64_t> pairs;
    for (const auto& [symbols, count] : words) {
      for (size_t i = 0; i + 1 < symbols.size(); ++i) pairs[{symbols[i], symbols[i + 1]}] += count;
    }
    std::pair<uint32_t, uint32_t> best;
    int64_t highest = min_frequency - 1;
    for (const auto& [pair, count] : pairs) {
      if (count > highest) best = pair, highest = count;
    }
    if (highest < min_frequency) break;
    for (auto& [symbols, count] : words) {
      std::vector<uint32_t> joined;
      for (size_t i = 0; i < symbols.size(); ++i) {
        if (i + 1 < symbols.size() && symbols[i] == best.first && symbols[i + 1] == best.second) {
          joined.push_back(static_cast<uint32_t>(tokens.size()));
          ++i;
        } else {
          joined.push_back(symbols[i]);
        }
      }
      symbols = joined;
    }
    tokens.push_back(tokens[best.first] + tokens[best.second]);
  }
  return tokens;
}

TEST(TrainBpeTest, EqualsARecountAfterEveryMerge) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    const std::string text = made_up_text(seed, 300) + std::string(50, 'a') + " 天地天地玄黄天地";
    BpeTrainingOptions options;
    options.vocab_size = 256 + 150 + 1;
    const auto tokenizer = train_bpe(source_of({text}), options).value();
    const std::vector<std::string> expected = naive_tokens(text, 150, options.min_frequency);
    ASSERT_EQ(static_cast<size_t>(tokenizer->vocab_size()), expected.size() + 1);
    for (size_t id = 0; id < expected.size(); ++id) {
      EXPECT_EQ(tokenizer->token_bytes(static_cast<int32_t>(id)), expected[id])
          << "seed " << seed << " id " << id;
    }
    EXPECT_EQ(tokenizer->token_bytes(*tokenizer->end_of_text()), "<|endoftext|>");
  }
}

TEST(TrainBpeTest, ThreadsPartsAndOrderChangeNothing) {
  std::vector<std::string> documents;
  for (uint32_t i = 0; i < 20; ++i) documents.push_back(made_up_text(100 + i, 200) + "。\n\n中文 了\n x");
  BpeTrainingOptions options;
  options.vocab_size = 500;
  const uint64_t expected = train_bpe(source_of(documents), options).value()->fingerprint();
  std::reverse(documents.begin(), documents.end());
  for (const size_t part_bytes : {7U, 64U, 1000U}) {
    std::vector<std::string> parts;
    for (const std::string& document : documents) {
      std::string rest = document;
      for (size_t take = part_bytes; take < rest.size();) {
        const size_t cut = last_safe_cut(std::string_view(rest).substr(0, take));
        if (cut == 0) {
          take += part_bytes;
          continue;
        }
        parts.push_back(rest.substr(0, cut));
        rest.erase(0, cut);
        take = part_bytes;
      }
      parts.push_back(rest);
    }
    ASSERT_GT(parts.size(), documents.size());
    for (const int threads : {1, 2, 3}) {
      options.threads = threads;
      EXPECT_EQ(train_bpe(source_of(parts), options).value()->fingerprint(), expected)
          << part_bytes << " bytes, " << threads << " threads";
    }
  }
}

TEST(TrainBpeTest, TokensAreDistinctAndShort) {
  BpeTrainingOptions options;
  options.vocab_size = 2000;
  options.min_frequency = 1;
  options.max_token_bytes = 5;
  const auto tokenizer = train_bpe(source_of({made_up_text(9, 2000)}), options).value();
  std::set<std::string_view> seen;
  for (int32_t id = 0; id < *tokenizer->end_of_text(); ++id) {
    EXPECT_LE(tokenizer->token_bytes(id).size(), 5U);
    EXPECT_TRUE(seen.insert(tokenizer->token_bytes(id)).second) << id;
  }
}

TEST(TrainBpeTest, StopsWhenNothingIsFrequentEnough) {
  BpeTrainingOptions options;
  options.vocab_size = 4096;
  const auto tokenizer = train_bpe(source_of({"abab cdcd ab"}), options).value();
  EXPECT_LT(tokenizer->vocab_size(), 300);
  EXPECT_EQ(tokenizer->end_of_text(), tokenizer->vocab_size() - 1);
}

TEST(TrainBpeTest, SavedFileGivesTheSameTokenizer) {
  const std::string path = testing::TempDir() + "/trained_tokenizer.json";
  const std::string text = made_up_text(4, 1000);
  for (const std::string pattern : {"llama3", "gpt2", "qwen2", "o200k"}) {
    BpeTrainingOptions options;
    options.vocab_size = 400;
    options.pattern = pattern;
    const auto trained = train_bpe(source_of({text}), options).value();
    ASSERT_TRUE(save_tokenizer(*trained, path));
    auto loaded = load_tokenizer(path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ((*loaded)->fingerprint(), trained->fingerprint()) << pattern;
    std::vector<int32_t> ids;
    ASSERT_TRUE((*loaded)->encoder()->encode(text, ids));
    EXPECT_EQ((*loaded)->decode(ids), text);
    EXPECT_LT(ids.size() * 2, text.size());
  }
}

TEST(TrainBpeTest, RefusesWithASentence) {
  const auto message = [](const BpeTrainingOptions& options, const std::string& text) {
    const auto result = train_bpe(source_of({text}), options);
    return result ? std::string() : result.error().message;
  };
  BpeTrainingOptions options;
  EXPECT_NE(message(options, "").find("no text"), std::string::npos);
  options.vocab_size = 256;
  EXPECT_NE(message(options, "a").find("257"), std::string::npos);
  options = {};
  options.pattern = "cl100k";
  EXPECT_NE(message(options, "a").find("llama3"), std::string::npos);
  const TextSource broken = [](std::string&) -> Result<bool> { return io_error("the disk is gone"); };
  EXPECT_EQ(train_bpe(broken, {}).error().message, "the disk is gone");
}

}  // namespace
}  // namespace ingot::data
