// Reads tokenizer.json of Hugging Face: byte-level BPE, and the character vocabularies that we write.

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/character_tokenizer.h"

namespace ingot::data {
namespace {

namespace dom = simdjson::dom;

// A field as a type, or a default when it is absent, null or of another type.
std::string_view text_of(dom::element parent, std::string_view key, std::string_view otherwise) {
  std::string_view value;
  return parent[key].get(value) == simdjson::SUCCESS ? value : otherwise;
}
bool flag_of(dom::element parent, std::string_view key, bool otherwise) {
  bool value = false;
  return parent[key].get(value) == simdjson::SUCCESS ? value : otherwise;
}
bool is_absent(dom::element parent, std::string_view key) {
  dom::element value;
  return parent[key].get(value) != simdjson::SUCCESS || value.is_null();
}

std::string shown(std::string_view text) {
  constexpr size_t kLimit = 60;
  return text.size() <= kLimit ? std::string(text) : std::string(text.substr(0, kLimit)) + "...";
}

class Reader {
 public:
  explicit Reader(std::string place) : place_(std::move(place)) {}

  Result<std::unique_ptr<Tokenizer>> read(dom::element root);

 private:
  Error refuse(const std::string& what) const { return invalid(fmt::format("{}: {}", place_, what)); }
  Error damaged(const std::string& what) const {
    return corrupt(fmt::format("{}: {}; the file is damaged or not a tokenizer.json", place_, what));
  }

  Result<void> check_model(dom::element model) const;
  Result<void> read_normalizer(dom::element normalizer);
  Result<void> read_pre_tokenizer(dom::element step);
  Result<void> read_split(dom::element split);
  Result<void> finish_pre_tokenizer();
  Result<void> read_added_tokens(dom::element root);
  Result<void> read_vocab(dom::element model);
  Result<void> read_merges(dom::element model);
  Result<std::pair<std::string_view, std::string_view>> read_merge(dom::element merge, size_t index) const;
  Result<std::unique_ptr<Tokenizer>> read_characters(dom::element model) const;
  void choose_end_of_text();
  bool is_byte_vocabulary() const;  // what byte_tokenizer() writes

  std::string place_;
  BpeDefinition definition_;
  bool byte_level_ = false;
  std::unordered_map<std::string_view, uint32_t> id_of_;  // by spelling in the file
};

Result<void> Reader::check_model(dom::element model) const {
  const std::string_view type = text_of(model, "type", "BPE");
  if (type != "BPE")
    return refuse(fmt::format("the model is {}; only byte-level BPE can be read", shown(type)));
  if (flag_of(model, "byte_fallback", false)) {
    return refuse(
        "this is a SentencePiece-style vocabulary (byte_fallback is set), which is not supported; use a "
        "byte-level "
        "BPE tokenizer such as Llama 3's, or train one with `ingot data tokenizer train`");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text_of(model, key, "").empty())
      return refuse(fmt::format("model.{} is set, which is not supported", key));
  }
  double dropout = 0;
  if (model["dropout"].get(dropout) == simdjson::SUCCESS && dropout != 0) {
    return refuse(fmt::format("model.dropout is {}, which would make ids random; set it to null", dropout));
  }
  return {};
}

Result<void> Reader::read_normalizer(dom::element normalizer) {
  const std::string_view type = text_of(normalizer, "type", "");
  if (type == "NFC") {
    definition_.nfc = true;
    return {};
  }
  dom::array steps;
  if (type == "Sequence" && normalizer["normalizers"].get(steps) == simdjson::SUCCESS) {
    for (const dom::element step : steps) INGOT_TRY_VOID(read_normalizer(step));
    return {};
  }
  return refuse(fmt::format("the normalizer {} is not supported, only NFC is", shown(type)));
}

Result<void> Reader::read_split(dom::element split) {
  const std::string_view behavior = text_of(split, "behavior", "");
  if (behavior != "Isolated" || flag_of(split, "invert", false)) {
    return refuse(fmt::format("a Split with behavior {}{} is not supported, only Isolated is",
                              shown(behavior), flag_of(split, "invert", false) ? " and invert" : ""));
  }
  std::string_view expression;
  if (split["pattern"]["Regex"].get(expression) == simdjson::SUCCESS) {
    definition_.dialects.push_back(ExpressionDialect::kHuggingFace);
  } else if (split["pattern"]["String"].get(expression) == simdjson::SUCCESS) {
    definition_.dialects.push_back(ExpressionDialect::kLiteral);
  } else {
    return damaged("a Split has no pattern");
  }
  definition_.expressions.emplace_back(expression);
  return {};
}

Result<void> Reader::read_pre_tokenizer(dom::element step) {
  const std::string_view type = text_of(step, "type", "");
  dom::array steps;
  if (type == "Sequence" && step["pretokenizers"].get(steps) == simdjson::SUCCESS) {
    for (const dom::element inner : steps) INGOT_TRY_VOID(read_pre_tokenizer(inner));
    return {};
  }
  if (byte_level_) return refuse("a pre-tokenizer after ByteLevel is not supported");
  if (type == "Split") return read_split(step);
  if (type == "Digits") {
    definition_.expressions.emplace_back(flag_of(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+");
    definition_.dialects.push_back(ExpressionDialect::kHuggingFace);
    return {};
  }
  if (type != "ByteLevel") return refuse(fmt::format("the pre-tokenizer {} is not supported", shown(type)));
  byte_level_ = true;
  if (flag_of(step, "add_prefix_space", false)) {
    return refuse("add_prefix_space is set, which adds a space that is not in the text; set it to false");
  }
  if (flag_of(step, "use_regex", true)) {
    definition_.expressions.emplace_back(pattern_row(Pattern::kGpt2).pcre2);
    definition_.dialects.push_back(ExpressionDialect::kPcre2);
  }
  return {};
}

// One split that is known to us has a scanner.
Result<void> Reader::finish_pre_tokenizer() {
  if (definition_.expressions.size() != 1) return {};
  if (definition_.dialects[0] == ExpressionDialect::kPcre2) {
    definition_.pattern = Pattern::kGpt2;
  } else if (definition_.dialects[0] == ExpressionDialect::kHuggingFace) {
    definition_.pattern = pattern_by_expression(definition_.expressions[0]);
  }
  if (definition_.pattern) {
    definition_.expressions.clear();
    definition_.dialects.clear();
  }
  return {};
}

Result<void> Reader::read_added_tokens(dom::element root) {
  dom::array list;
  if (root["added_tokens"].get(list) != simdjson::SUCCESS) return {};
  size_t index = 0;
  for (const dom::element entry : list) {
    uint64_t id = 0;
    std::string_view content;
    if (entry["id"].get(id) != simdjson::SUCCESS || entry["content"].get(content) != simdjson::SUCCESS) {
      return damaged(fmt::format("added_tokens[{}] has no id or no content", index));
    }
    if (id >= PairTable::kMaxSymbols)
      return damaged(fmt::format("added_tokens[{}] has the id {}", index, id));
    const bool special = flag_of(entry, "special", false);
    for (const std::string_view key : {"single_word", "lstrip", "rstrip"}) {
      if (!special && flag_of(entry, key, false)) {
        return refuse(
            fmt::format("the added token '{}' has {}, which is not supported", shown(content), key));
      }
    }
    if (content.empty()) return damaged(fmt::format("added_tokens[{}] is empty", index));
    definition_.added.push_back(
        {static_cast<uint32_t>(id), std::string(content), special, flag_of(entry, "normalized", !special)});
    ++index;
  }
  std::vector<AddedToken> by_id = definition_.added;
  std::sort(by_id.begin(), by_id.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  for (size_t i = 1; i < by_id.size(); ++i) {
    if (by_id[i].id != by_id[i - 1].id) continue;
    return damaged(fmt::format("the added tokens '{}' and '{}' both have the id {}",
                               shown(by_id[i - 1].content), shown(by_id[i].content), by_id[i].id));
  }
  return {};
}

Result<void> Reader::read_vocab(dom::element model) {
  dom::object vocab;
  if (model["vocab"].get(vocab) != simdjson::SUCCESS) return damaged("model.vocab is missing");
  std::unordered_map<uint32_t, std::string_view> added;
  for (const AddedToken& token : definition_.added) added[token.id] = token.content;
  std::vector<std::string_view> spelling_of;
  for (const auto [spelling, value] : vocab) {
    uint64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id >= PairTable::kMaxSymbols) {
      return damaged(fmt::format("the token '{}' of model.vocab has no id below {}", shown(spelling),
                                 PairTable::kMaxSymbols));
    }
    if (spelling.empty()) return damaged(fmt::format("the token of id {} is empty", id));
    if (spelling_of.size() <= id) spelling_of.resize(id + 1);
    if (!spelling_of[id].empty()) {
      return damaged(fmt::format("the tokens '{}' and '{}' both have the id {}", shown(spelling_of[id]),
                                 shown(spelling), id));
    }
    if (!id_of_.try_emplace(spelling, static_cast<uint32_t>(id)).second) {
      return damaged(fmt::format("the token '{}' is twice in model.vocab", shown(spelling)));
    }
    spelling_of[id] = spelling;
  }
  definition_.tokens.resize(spelling_of.size());
  for (uint32_t id = 0; id < spelling_of.size(); ++id) {
    if (spelling_of[id].empty()) continue;
    const auto other = added.find(id);
    if (other != added.end() && other->second == spelling_of[id]) continue;  // make_bpe_tokenizer fills it in
    auto bytes = from_byte_alphabet(spelling_of[id]);
    if (!bytes) {
      return refuse(
          fmt::format("the token '{}' of id {} is not spelled in the byte alphabet; this is not a byte-level "
                      "vocabulary",
                      shown(spelling_of[id]), id));
    }
    if (other != added.end() && other->second != *bytes) {
      return damaged(fmt::format("the id {} is '{}' in added_tokens and '{}' in model.vocab", id,
                                 shown(other->second), shown(spelling_of[id])));
    }
    definition_.tokens[id] = *std::move(bytes);
  }
  return {};
}

Result<std::pair<std::string_view, std::string_view>> Reader::read_merge(dom::element merge,
                                                                         size_t index) const {
  std::string_view joined;
  if (merge.get(joined) == simdjson::SUCCESS) {
    const size_t space = joined.find(' ');
    if (space != std::string_view::npos && joined.find(' ', space + 1) == std::string_view::npos) {
      return std::pair(joined.substr(0, space), joined.substr(space + 1));
    }
    return damaged(fmt::format("model.merges[{}] '{}' is not two tokens and a space", index, shown(joined)));
  }
  dom::array pair;
  std::string_view left, right;
  if (merge.get(pair) == simdjson::SUCCESS && pair.size() == 2 && pair.at(0).get(left) == simdjson::SUCCESS &&
      pair.at(1).get(right) == simdjson::SUCCESS) {
    return std::pair(left, right);
  }
  return damaged(fmt::format("model.merges[{}] is neither a text nor a pair of texts", index));
}

Result<void> Reader::read_merges(dom::element model) {
  dom::array merges;
  if (model["merges"].get(merges) != simdjson::SUCCESS) return damaged("model.merges is missing");
  std::unordered_map<uint64_t, size_t> index_of;
  std::string product;
  for (const dom::element entry : merges) {
    const size_t index = definition_.merges.size();
    if (index >= PairTable::kNone) return refuse("there are more merges than 16 million");
    INGOT_TRY(const auto pair, read_merge(entry, index));
    product.assign(pair.first).append(pair.second);
    Merge merge;
    const std::array<std::pair<std::string_view, uint32_t*>, 3> wanted = {
        {{pair.first, &merge.left}, {pair.second, &merge.right}, {product, &merge.product}}};
    for (const auto& [text, id] : wanted) {
      const auto found = id_of_.find(text);
      if (found == id_of_.end()) {
        return damaged(fmt::format("model.merges[{}] needs the token '{}', which model.vocab does not have",
                                   index, shown(text)));
      }
      *id = found->second;
    }
    const auto [first, is_new] = index_of.try_emplace(uint64_t{merge.left} << 32 | merge.right, index);
    if (!is_new) {
      return damaged(fmt::format("model.merges[{}] repeats model.merges[{}], '{} {}'", index, first->second,
                                 shown(pair.first), shown(pair.second)));
    }
    definition_.merges.push_back(merge);
  }
  return {};
}

void Reader::choose_end_of_text() {
  for (const std::string_view name :
       {"<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>"}) {
    for (const AddedToken& token : definition_.added) {
      if (token.special && token.content == name) {
        definition_.end_of_text = static_cast<int32_t>(token.id);
        return;
      }
    }
  }
}

bool Reader::is_byte_vocabulary() const {
  if (!definition_.merges.empty() || definition_.pattern || !definition_.expressions.empty()) return false;
  if (definition_.nfc || definition_.added.size() != 1 || definition_.end_of_text != 256) return false;
  if (definition_.tokens.size() < 256) return false;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (definition_.tokens[byte] != std::string(1, static_cast<char>(byte))) return false;
  }
  return true;
}

Result<std::unique_ptr<Tokenizer>> Reader::read_characters(dom::element model) const {
  dom::object vocab;
  if (model["vocab"].get(vocab) != simdjson::SUCCESS) return damaged("model.vocab is missing");
  std::vector<std::string> characters(vocab.size());
  for (const auto [character, value] : vocab) {
    uint64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id >= characters.size() || !characters[id].empty()) {
      return damaged(fmt::format("the ids of model.vocab are not 0 to {}", characters.size() - 1));
    }
    characters[id] = character;
  }
  return make_character_tokenizer(characters).context(place_);
}

Result<std::unique_ptr<Tokenizer>> Reader::read(dom::element root) {
  dom::element model;
  if (root["model"].get(model) != simdjson::SUCCESS) return damaged("there is no model");
  INGOT_TRY_VOID(check_model(model));
  dom::element part;
  if (!is_absent(root, "normalizer")) INGOT_TRY_VOID(read_normalizer(root["normalizer"].value_unsafe()));
  dom::array merges;
  const bool no_merges = model["merges"].get(merges) == simdjson::SUCCESS && merges.size() == 0;
  if (is_absent(root, "pre_tokenizer")) {
    const bool fuses = root["decoder"].get(part) == simdjson::SUCCESS && text_of(part, "type", "") == "Fuse";
    if (no_merges && fuses && !definition_.nfc) return read_characters(model);
    return refuse("there is no ByteLevel pre-tokenizer; only byte-level BPE can be read");
  }
  INGOT_TRY_VOID(read_pre_tokenizer(root["pre_tokenizer"].value_unsafe()));
  if (!byte_level_) return refuse("there is no ByteLevel pre-tokenizer; only byte-level BPE can be read");
  INGOT_TRY_VOID(finish_pre_tokenizer());
  INGOT_TRY_VOID(read_added_tokens(root));
  INGOT_TRY_VOID(read_vocab(model));
  INGOT_TRY_VOID(read_merges(model));
  definition_.whole_pieces = flag_of(model, "ignore_merges", false);
  choose_end_of_text();
  if (is_byte_vocabulary()) return byte_tokenizer();
  return make_bpe_tokenizer(std::move(definition_)).context(place_);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> parse_hugging_face_json(std::string_view json, const std::string& place) {
  dom::parser parser;
  dom::element root;
  const auto error = parser.parse(json.data(), json.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return corrupt(fmt::format("{}: not a whole JSON text ({}); the file is damaged or truncated", place,
                               simdjson::error_message(error)));
  }
  if (!root.is_object()) return corrupt(fmt::format("{}: not a JSON object", place));
  return Reader(place).read(root);
}

}  // namespace ingot::data
