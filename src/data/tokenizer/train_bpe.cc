#include "data/tokenizer/train_bpe.h"

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/merge_learner.h"
#include "data/tokenizer/scanner.h"
#include "data/tokenizer/word_counts.h"

namespace ingot::data {
namespace {

constexpr int32_t kBytes = 256;
constexpr size_t kBatchBytes = 8 << 20;  // of text in memory at once, or one document that is larger
constexpr size_t kBatchTexts = 1 << 16;

Result<void> check(const BpeTrainingOptions& options) {
  constexpr int32_t kLargest = PairTable::kMaxSymbols - 1;
  if (options.vocab_size < kBytes + 1 || options.vocab_size > kLargest) {
    return invalid(
        fmt::format("a vocabulary of {} is out of range: it holds the 256 bytes and end-of-text, so {} to {}",
                    options.vocab_size, kBytes + 1, kLargest));
  }
  if (options.min_frequency < 1) {
    return invalid(fmt::format("min_frequency is {}; it must be at least 1", options.min_frequency));
  }
  if (options.max_token_bytes < 2) {
    return invalid(fmt::format("max_token_bytes is {}; it must be at least 2", options.max_token_bytes));
  }
  if (options.threads < 1)
    return invalid(fmt::format("threads is {}; it must be at least 1", options.threads));
  return {};
}

Result<Pattern> training_pattern(const std::string& name) {
  const auto pattern = pattern_by_name(name);
  if (pattern && *pattern != Pattern::kCl100k) return *pattern;
  return invalid(
      fmt::format("'{}' is not a pattern to train with; the choices are llama3, gpt2, qwen2, o200k{}", name,
                  pattern ? " (cl100k cuts whitespace at the end of a text differently, llama3 is the "
                            "same pattern without that)"
                          : ""));
}

void count_text(ScanFunction scan, std::string_view text, WordCounts& counts) {
  std::array<const char*, 256> ends;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const size_t found = scan(p, end, ends.data(), ends.size());
    for (size_t i = 0; i < found; p = ends[i++]) counts.add({p, static_cast<size_t>(ends[i] - p)}, 1);
  }
}

Result<WordCounts> count_words(const TextSource& source, ScanFunction scan,
                               const BpeTrainingOptions& options) {
  ThreadPool pool(options.threads);
  std::vector<WordCounts> counts(static_cast<size_t>(options.threads));
  std::vector<std::string> batch;
  BpeTrainingProgress progress{"counting words", 0, 0};
  for (bool more = true; more;) {
    size_t held = 0;
    size_t texts = 0;
    while (held < kBatchBytes && texts < kBatchTexts) {
      if (texts == batch.size()) batch.emplace_back();
      INGOT_TRY(more, source(batch[texts]));
      if (!more) break;
      held += batch[texts++].size();
    }
    pool.parallel_for(static_cast<int64_t>(texts), [&](int64_t i, int thread) {
      count_text(scan, batch[static_cast<size_t>(i)], counts[static_cast<size_t>(thread)]);
    });
    progress.done += static_cast<int64_t>(held);
    if (options.progress) options.progress(progress);
  }
  for (size_t i = 1; i < counts.size(); ++i) {
    counts[0].add_all(counts[i]);
    counts[i] = WordCounts();
  }
  return std::move(counts[0]);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> train_bpe(const TextSource& source, const BpeTrainingOptions& options) {
  INGOT_TRY_VOID(check(options));
  INGOT_TRY(const Pattern pattern, training_pattern(options.pattern));
  std::optional<MergeLearner> learner;
  {
    INGOT_TRY(const WordCounts words, count_words(source, scan_function(pattern), options));
    if (words.size() == 0) return invalid("there is no text to train a tokenizer on");
    learner.emplace(words, options.min_frequency, options.max_token_bytes);
  }
  BpeDefinition definition;
  definition.pattern = pattern;
  for (int32_t byte = 0; byte < kBytes; ++byte) definition.tokens.emplace_back(1, static_cast<char>(byte));
  const int32_t wanted = options.vocab_size - kBytes - 1;
  for (int32_t made = 0; made < wanted; ++made) {
    const auto merge = learner->next();
    if (!merge) break;
    definition.merges.push_back(*merge);
    definition.tokens.push_back(definition.tokens[merge->left] + definition.tokens[merge->right]);
    if (options.progress) options.progress({"merging", made + 1, wanted});
  }
  const uint32_t end_of_text = static_cast<uint32_t>(definition.tokens.size());
  definition.added.push_back({end_of_text, "<|endoftext|>", true, false});
  definition.end_of_text = static_cast<int32_t>(end_of_text);
  INGOT_TRY(auto tokenizer, make_bpe_tokenizer(std::move(definition)));
  tokenizer->set_name("trained");
  return tokenizer;
}

}  // namespace ingot::data
