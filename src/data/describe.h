#pragma once
// What `ingot data info`, `verify` and `cat` print about a data set folder or one shard, as text and JSON.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"

namespace ingot::data {

class Tokenizer;

struct DatasetDescription {
  std::string text;                  // lines as cli.md shows them
  std::string json;                  // the same fields, one object
  std::vector<std::string> damaged;  // one sentence per bad block or shard, when verified
};

// `path` is a data set folder or a .tok file. With `verify` every block of every shard is read and checked.
Result<DatasetDescription> describe_dataset(const std::string& path, bool verify);

struct CatOptions {
  std::string split = "train";  // or "validation"
  int64_t first_document = 0;
  int64_t documents = 1;
  int64_t max_tokens = 0;  // per document; 0: all
  bool ids = false;        // ids in decimal instead of text
};

// Decodes documents one after the other into `sink`. Fails when the split has no such document, or as `sink`
// does.
Result<void> print_documents(const Dataset& dataset, const Tokenizer& tokenizer, const CatOptions& options,
                             const std::function<Result<void>(std::string_view)>& sink);

}  // namespace ingot::data
