#pragma once
// Text and a tokenizer become a data set folder (dataset.h), whole or not at all. Documents are encoded on
// several threads and written in document order, so the bytes do not depend on the number of threads. Memory
// is bounded by a few pieces per thread, however long a document is. An end-of-text token follows every
// document where the tokenizer has one; special tokens in text are plain text.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "data/document_reader.h"

namespace ingot::data {

class Tokenizer;

struct BuildOptions {
  std::vector<std::string> sources;             // files, folders, globs, "-"
  std::vector<std::string> validation_sources;  // when given, validation_fraction is not used
  // In [0, 1). The last part of the tokens where the corpus is one document, else documents by hash of (seed,
  // index).
  double validation_fraction = 0.005;
  TextFormat format = TextFormat::kAuto;
  std::string text_field = "text";
  std::string text_field_option = "--text-field ";  // what a message puts before the right name
  uint64_t seed = 0;
  bool bos = false;                          // the token of begin_of_text() before every document
  int64_t shard_bytes = int64_t{256} << 20;  // of tokens; a document may run over several shards
  int64_t block_bytes = int64_t{4} << 20;    // of a shard
  int64_t piece_bytes = int64_t{1} << 18;    // text handed to one thread at a time
  int64_t held_tokens = int64_t{8} << 20;    // of the first document in memory; a longer one waits in a file
  int threads = 1;                           // 0: all that the process has
  std::string tokenizer_name;                // recorded in the manifest
  std::string out;                           // folder
  bool replace = false;                      // an existing `out`
};

struct BuildProgress {
  int64_t stored_bytes_done = 0;
  int64_t stored_bytes_total = 0;  // 0 when unknown
  int64_t text_bytes = 0;
  int64_t tokens = 0;
  int64_t documents = 0;
  double seconds = 0;
};

struct BuildReport {
  DatasetManifest manifest;
  ReadStats train_reading;       // of sources
  ReadStats validation_reading;  // of validation_sources
  double seconds = 0;
  // Of these: text read, encoded and put into shards; not the encoders' tables before, nor the syncs after.
  double encoding_seconds = 0;
};

// The id of the token named as models name it (<|begin_of_text|>, <|bos|>, ...); else the end-of-text token,
// which GPT-2 uses for both.
std::optional<int32_t> begin_of_text(const Tokenizer& tokenizer);

// Called from the calling thread a few times a second.
using BuildProgressCallback = std::function<void(const BuildProgress&)>;

// Fails as DocumentReader and find_source_files do, when no document is left, when `out` is there and not
// `replace` or holds what no build wrote, when the disk is full; nothing is left at `out` then.
Result<BuildReport> build_dataset(const Tokenizer& tokenizer, const BuildOptions& options,
                                  const BuildProgressCallback& progress = {});

}  // namespace ingot::data
