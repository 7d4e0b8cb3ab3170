#pragma once
// Writes Hugging Face's tokenizer.json around a BPE model, so that their library gives the same ids. Reading
// it: hugging_face_file.cc.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/bpe_tokenizer.h"

namespace ingot::data {

struct HuggingFaceJson {
  std::vector<AddedToken> added;
  std::string normalizer = "null";  // this and the next two are JSON
  std::string pre_tokenizer = "null";
  std::string decoder = "null";
  bool ignore_merges = false;
  std::vector<std::string> vocab;  // spelling by id; empty for holes
  std::vector<std::pair<std::string_view, std::string_view>> merges;

  std::string to_string() const;

  static std::string byte_level(bool use_regex);
  static std::string isolated_split(std::string_view expression, bool literal);
  static std::string sequence(const std::vector<std::string>& pre_tokenizers);
};

}  // namespace ingot::data
