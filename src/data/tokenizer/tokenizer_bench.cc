// Encoding and training speed on one core with every pattern, MB (10^6 bytes) of made-up text a second: a
// trained tokenizer of 8,192 tokens; "cold" is the first pass of a new encoder over the text, "warm" the best
// of three more.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bench_report.h"
#include "base/clock.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/train_bpe.h"

namespace {

using ingot::Result;
using ingot::data::Encoder;

constexpr size_t kTextBytes = 16 << 20;

// Words with the frequencies of natural language (the k-th word once for every k uses), new ones all the
// time.
std::string made_up_text(size_t bytes) {
  std::mt19937_64 random(1);
  const auto syllable = [&] {
    return std::string(1, "bcdfghlmnprstvw"[random() % 15]) + "aeiou"[random() % 5] +
           (random() % 3 ? "" : "n");
  };
  std::vector<std::string> words;
  for (int i = 0; i < 60000; ++i) {
    std::string word;
    for (size_t k = 1 + random() % 4; k > 0; --k) word += syllable();
    words.push_back(word);
  }
  std::string text;
  while (text.size() < bytes) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const double rank = std::pow(static_cast<double>(words.size()), uniform);
    std::string word = words[std::min(words.size() - 1, static_cast<size_t>(rank) - 1)];
    if (random() % 70 == 0) word += syllable() + syllable();
    if (random() % 12 == 0) word[0] = static_cast<char>(word[0] - 32);
    text += word;
    const uint64_t mark = random() % 100;
    text += mark < 5 ? ", " : mark < 9 ? ". " : mark < 10 ? "\n\n" : mark < 11 ? " 1984 " : " ";
  }
  return text;
}

double encode_seconds(Encoder& encoder, std::string_view text, std::vector<int32_t>& ids) {
  ids.clear();
  const int64_t start = ingot::monotonic_ns();
  const auto result = encoder.encode(text, ids);
  INGOT_CHECK(result.has_value(), "the text cannot be encoded");
  return static_cast<double>(ingot::monotonic_ns() - start) * 1e-9;
}

Result<int> measure_patterns(ingot::BenchReport& report) {
  const std::string text = made_up_text(kTextBytes);
  const double megabytes = static_cast<double>(text.size()) * 1e-6;
  for (const auto& row : ingot::data::patterns()) {
    if (row.pattern == ingot::data::Pattern::kCl100k) continue;  // llama3 but for the end of the text
    ingot::data::BpeTrainingOptions options;
    options.vocab_size = 8192;
    options.pattern = row.name;
    bool given = false;
    const auto source = [&](std::string& out) -> Result<bool> {
      out = text.substr(0, text.size() / 2);
      return !std::exchange(given, true);
    };
    const int64_t start = ingot::monotonic_ns();
    const auto tokenizer = ingot::data::train_bpe(source, options).value();
    const double training = static_cast<double>(ingot::monotonic_ns() - start) * 1e-9;
    const auto encoder = tokenizer->encoder();
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 2);
    const double cold = encode_seconds(*encoder, text, ids);
    double warm = cold;
    for (int round = 0; round < 3; ++round) warm = std::min(warm, encode_seconds(*encoder, text, ids));
    report.add(fmt::format("tokenizer.encode.{}.cold", row.name), megabytes / cold, "MB/s", 60);
    report.add(fmt::format("tokenizer.encode.{}.warm", row.name), megabytes / warm, "MB/s");
    report.add(fmt::format("tokenizer.train.{}", row.name), megabytes / 2 / training, "MB/s");
  }
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) { return ingot::run_bench(argc, argv, measure_patterns); }
