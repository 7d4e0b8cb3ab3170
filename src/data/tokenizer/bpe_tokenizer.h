#pragma once
// The byte-level BPE tokenizer: what files and training produce, and the parts that encode with it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/tokenizer/bpe_merge.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/split_pattern.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {

// A token that stands outside the merges. Special ones are never found in text; others are, before the
// pattern cuts.
struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool special = true;
  bool normalized = false;  // looked for in normalized text
};

struct BpeDefinition {
  std::vector<std::string> tokens;  // bytes by id; empty for holes and for added tokens
  std::vector<Merge> merges;
  bool whole_pieces = false;  // see BpeModel

  std::optional<Pattern> pattern;        // a scanner of ours, else:
  std::vector<std::string> expressions;  // splits in sequence; none: the whole text is one piece
  std::vector<ExpressionDialect> dialects;

  bool nfc = false;
  std::vector<AddedToken> added;
  std::optional<int32_t> end_of_text;
};

// Fails when an expression cannot be compiled or some byte has no token. The definition is otherwise a valid
// one: ids in range, no repeated merges or tokens.
Result<std::unique_ptr<Tokenizer>> make_bpe_tokenizer(BpeDefinition definition);

// tokenizer.json of a definition.
std::string bpe_to_hugging_face_json(const BpeDefinition& definition);

}  // namespace ingot::data
