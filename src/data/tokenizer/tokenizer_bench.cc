// Encoding speed on one core, MB (10^6 bytes) of text a second. "cold" is the first pass of a new encoder
// over the text, "warm" the best of three more.
//   tokenizer_bench                                    a trained tokenizer of 8,192 tokens, made-up text,
//   every pattern tokenizer_bench --vocab FILE [--pattern NAME] --file TEXT [--repeat N]
//                                                      one line of JSON for scripts: bytes, ids, seconds,
//                                                      ids' hash
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bench_report.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/text_cut.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/train_bpe.h"

namespace {

using ingot::Result;
using ingot::data::Encoder;

constexpr size_t kTextBytes = 16 << 20;
constexpr size_t kPartBytes = 1 << 20;  // as the reader of `ingot data build` cuts long documents

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

int measure_patterns(ingot::BenchReport& report) {
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

struct FileOptions {
  std::string vocab, pattern, file;
  int repeat = 1;
};

int measure_file(const FileOptions& options) {
  auto tokenizer = ingot::data::load_tokenizer(options.vocab, {options.pattern});
  auto text = ingot::read_file(options.file);
  if (!tokenizer || !text) {
    fmt::print(stderr, "tokenizer_bench: {}\n", tokenizer ? text.error().message : tokenizer.error().message);
    return 1;
  }
  std::vector<int32_t> ids, all;
  std::vector<std::string> seconds;
  const auto encoder = (*tokenizer)->encoder();  // its caches are empty before the first pass
  for (int round = 0; round < options.repeat; ++round) {
    double total = 0;
    all.clear();
    for (std::string_view rest = *text; !rest.empty();) {
      const size_t cut =
          rest.size() > kPartBytes ? ingot::data::last_safe_cut(rest.substr(0, kPartBytes)) : 0;
      const std::string_view part = rest.substr(0, cut == 0 ? rest.size() : cut);
      rest.remove_prefix(part.size());
      total += encode_seconds(*encoder, part, ids);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    seconds.push_back(fmt::format("{:.6f}", total));
  }
  const uint64_t hash = ingot::hash64(std::as_bytes(std::span<const int32_t>(all)));
  fmt::print("{{\"bytes\": {}, \"ids\": {}, \"hash\": \"{}\", \"seconds\": [{}]}}\n", text->size(),
             all.size(), ingot::hash_hex(hash), fmt::join(seconds, ", "));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ingot::BenchReport report(argc, argv);
  const std::vector<std::string>& arguments = report.arguments();
  FileOptions options;
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--vocab") options.vocab = arguments[i + 1];
    if (arguments[i] == "--pattern") options.pattern = arguments[i + 1];
    if (arguments[i] == "--file") options.file = arguments[i + 1];
    if (arguments[i] == "--repeat") options.repeat = std::stoi(arguments[i + 1]);
  }
  if (!options.file.empty()) return measure_file(options);
  return measure_patterns(report);
}
