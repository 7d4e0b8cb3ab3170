#pragma once
// Trains a byte-level BPE vocabulary. The result depends on the documents and the options alone: not on
// threads, on the order of documents, or on how the source cuts them into parts. Not an encoder; the result
// is a Tokenizer.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {

// Fills `text` with the next document, or with the next part of one, cut where last_safe_cut
// (data/text_cut.h) allows; false at the end. Parts and documents are counted alike, so their borders change
// nothing.
using TextSource = std::function<Result<bool>(std::string& text)>;

struct BpeTrainingProgress {
  std::string_view phase;  // "counting words", "merging"
  int64_t done = 0;        // bytes read, or tokens made
  int64_t total = 0;       // 0 where unknown
};

struct BpeTrainingOptions {
  int32_t vocab_size = 4096;  // with the 256 bytes and end-of-text; at least 257
  // Default llama3: digits in threes and runs of newlines are kept together, and contractions are matched in
  // both cases, all of which small models profit from; it means the same to Hugging Face tokenizers.
  std::string pattern = "llama3";  // also gpt2, qwen2, o200k
  int64_t min_frequency = 2;       // a pair seen less often is never merged; training may then stop early
  int32_t max_token_bytes = 64;    // no longer token is made
  int threads = 1;
  std::function<void(const BpeTrainingProgress&)> progress;  // called from the calling thread; may be empty
};

// Ids: 0..255 the bytes, then merges in order, then "<|endoftext|>". The pair with the highest count is
// merged, and of equals the one with the smaller left id, then the smaller right id. Counts are 64-bit. Fewer
// than vocab_size tokens result when no pair is frequent enough. Refuses an empty corpus and sizes out of
// range.
Result<std::unique_ptr<Tokenizer>> train_bpe(const TextSource& source, const BpeTrainingOptions& options);

}  // namespace ingot::data
