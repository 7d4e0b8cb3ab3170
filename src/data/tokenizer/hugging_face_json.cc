#include "data/tokenizer/hugging_face_json.h"

#include <nlohmann/json.hpp>

#include "data/tokenizer/byte_alphabet.h"

namespace ingot::data {
namespace {

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string_view truth(bool value) { return value ? "true" : "false"; }

}  // namespace

std::string HuggingFaceJson::byte_level(bool use_regex) {
  return fmt::format(R"({{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":{}}})",
                     truth(use_regex));
}

std::string HuggingFaceJson::isolated_split(std::string_view expression, bool literal) {
  return fmt::format(R"({{"type":"Split","pattern":{{"{}":{}}},"behavior":"Isolated","invert":false}})",
                     literal ? "String" : "Regex", json_quoted(expression));
}

std::string HuggingFaceJson::sequence(const std::vector<std::string>& pre_tokenizers) {
  return fmt::format(R"({{"type":"Sequence","pretokenizers":[{}]}})", fmt::join(pre_tokenizers, ","));
}

std::string HuggingFaceJson::to_string() const {
  std::string text =
      "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [";
  std::string_view separator = "\n    ";
  for (const AddedToken& token : added) {
    text += fmt::format(R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,)"
                        R"("normalized":{},"special":{}}})",
                        separator, token.id, json_quoted(token.content), truth(token.normalized),
                        truth(token.special));
    separator = ",\n    ";
  }
  text += fmt::format(
      "\n  ],\n  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n  \"post_processor\": null,\n  \"decoder\": "
      "{},\n",
      normalizer, pre_tokenizer, decoder);
  text += fmt::format(
      "  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": "
      "false,\n"
      "    \"byte_fallback\": false,\n    \"ignore_merges\": {},\n    \"vocab\": {{",
      truth(ignore_merges));
  separator = "\n      ";
  for (size_t id = 0; id < vocab.size(); ++id) {
    if (vocab[id].empty()) continue;
    text += fmt::format("{}{}: {}", separator, json_quoted(vocab[id]), id);
    separator = ",\n      ";
  }
  text += "\n    },\n    \"merges\": [";
  separator = "\n      ";
  for (const auto& [left, right] : merges) {
    text += fmt::format("{}{}", separator, json_quoted(fmt::format("{} {}", left, right)));
    separator = ",\n      ";
  }
  text += "\n    ]\n  }\n}\n";
  return text;
}

std::string bpe_to_hugging_face_json(const BpeDefinition& definition) {
  HuggingFaceJson json;
  json.added = definition.added;
  if (definition.nfc) json.normalizer = R"({"type":"NFC"})";
  json.decoder = HuggingFaceJson::byte_level(true);
  if (definition.pattern == Pattern::kGpt2) {
    json.pre_tokenizer = HuggingFaceJson::byte_level(true);
  } else {
    std::vector<std::string> steps;
    if (definition.pattern) {
      steps.push_back(HuggingFaceJson::isolated_split(pattern_row(*definition.pattern).expression, false));
    }
    bool gpt2_last = false;  // ByteLevel's own expression, which is always the last
    for (size_t i = 0; i < definition.expressions.size(); ++i) {
      gpt2_last = definition.dialects[i] == ExpressionDialect::kPcre2;
      if (gpt2_last) break;
      steps.push_back(HuggingFaceJson::isolated_split(definition.expressions[i],
                                                      definition.dialects[i] == ExpressionDialect::kLiteral));
    }
    steps.push_back(HuggingFaceJson::byte_level(gpt2_last));
    json.pre_tokenizer = HuggingFaceJson::sequence(steps);
  }
  json.ignore_merges = definition.whole_pieces;
  for (const std::string& token : definition.tokens) json.vocab.push_back(to_byte_alphabet(token));
  // Added tokens are in the vocabulary too: without it the library would number them by itself.
  for (const AddedToken& token : definition.added) json.vocab[token.id] = token.content;
  for (const Merge& merge : definition.merges)
    json.merges.emplace_back(json.vocab[merge.left], json.vocab[merge.right]);
  return json.to_string();
}

}  // namespace ingot::data
