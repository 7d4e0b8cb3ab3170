#pragma once
// What a run starts from: `data.train` may be raw text or a folder of shards; here both become an opened data
// set and its tokenizer. Raw text is built once into a cache folder whose name is a hash of what it depends
// on (sources with sizes and times, tokenizer, options), so a run that is started again finds it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "data/dataset_builder.h"

namespace ingot::data {

struct PrepareOptions {
  std::vector<std::string> train;  // text sources, or one data set folder
  std::vector<std::string>
      validation;  // text sources, or one data set folder (its train stream); may be empty
  double validation_fraction = 0.005;  // of raw text, when `validation` is empty
  std::string tokenizer = "auto";      // "auto", a name or a path; with a data set folder "auto" is its own
  int64_t auto_vocab = 0;              // tokens of a trained tokenizer; 0: chosen by the size of the corpus
  std::string cache_folder;            // built folders go below it, by key
  TextFormat format = TextFormat::kAuto;
  std::string text_field = "text";
  std::string text_field_option = "--text-field ";  // what a message puts before the right name
  uint64_t seed = 0;
  bool bos = false;
  int threads = 0;
};

struct PreparedData {
  Dataset dataset;
  std::unique_ptr<Tokenizer> tokenizer;
  bool built = false;              // false: found in the cache, or given as a folder
  std::vector<std::string> notes;  // sentences for the console: how the tokenizer was made, a build repeated
  std::vector<std::string> warnings;  // of the build, now or earlier: lines skipped, bytes that are no text
  PreparedData();
  PreparedData(PreparedData&&) noexcept;
  PreparedData& operator=(PreparedData&&) noexcept;
  ~PreparedData();
};

// Tokens of a trained vocabulary for so much text: a power of two near one for every KiB, from 512 to 32,768.
int64_t automatic_vocab(int64_t text_bytes);

Result<PreparedData> prepare_data(const PrepareOptions& options, const BuildProgressCallback& progress = {});

}  // namespace ingot::data
