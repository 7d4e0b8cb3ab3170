#include "data/tokenizer/character_tokenizer.h"

#include <unordered_map>

#include "base/hash.h"
#include "data/tokenizer/hugging_face_json.h"
#include "data/tokenizer/unicode_classes.h"

namespace ingot::data {
namespace {

constexpr uint32_t kCodePoints = 0x110000;

struct CharacterIds {
  std::unordered_map<uint32_t, int32_t> wide;
  std::array<int32_t, 128> ascii{};  // -1: none

  int32_t find(uint32_t code) const {
    if (code < ascii.size()) return ascii[code];
    const auto found = wide.find(code);
    return found == wide.end() ? -1 : found->second;
  }
};

class CharacterEncoder final : public Encoder {
 public:
  explicit CharacterEncoder(const CharacterIds& ids) : ids_(ids) {}

  Result<void> encode(std::string_view text, std::vector<int32_t>& out) override {
    const size_t before = out.size();
    const char* const end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const DecodedChar c = decode_char(p, end);
      const int32_t id = c.code == kInvalidChar ? -1 : ids_.find(c.code);
      if (id < 0) {
        out.resize(before);
        const auto at = p - text.data();
        if (c.code == kInvalidChar) {
          return invalid(
              fmt::format("byte {} of the text, 0x{:02x}, is not UTF-8, which a character tokenizer needs; "
                          "use the tokenizer 'bytes' or a BPE",
                          at, static_cast<uint8_t>(*p)));
        }
        return invalid(
            fmt::format("the character '{}' (U+{:04X}) at byte {} of the text is not in the vocabulary; "
                        "build the vocabulary from text that has it, or use the tokenizer 'bytes' or a BPE",
                        std::string_view(p, c.bytes), c.code, at));
      }
      out.push_back(id);
      p += c.bytes;
    }
    return {};
  }

 private:
  const CharacterIds& ids_;
};

class CharacterTokenizer final : public Tokenizer {
 public:
  CharacterTokenizer(std::vector<std::string> characters, CharacterIds ids)
      : characters_(std::move(characters)), ids_(std::move(ids)) {
    set_name("characters");
  }

  std::string_view kind() const override { return "characters"; }
  int32_t vocab_size() const override { return static_cast<int32_t>(characters_.size()); }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<CharacterEncoder>(ids_); }
  std::string_view token_bytes(int32_t id) const override {
    return id >= 0 && id < vocab_size() ? std::string_view(characters_[static_cast<size_t>(id)])
                                        : std::string_view();
  }
  std::string to_hugging_face_json() const override {
    HuggingFaceJson json;
    json.decoder = R"({"type":"Fuse"})";
    json.vocab.assign(characters_.begin(), characters_.end());
    return json.to_string();
  }
  uint64_t fingerprint() const override {
    uint64_t hash = hash64(kind());
    for (const std::string& character : characters_)
      hash = hash_combine(hash, hash64(std::string_view(character)));
    return hash;
  }
  std::vector<std::pair<std::string, std::string>> description() const override {
    return {
        {"kind", "characters"}, {"vocabulary", std::to_string(characters_.size())}, {"end of text", "none"}};
  }

 private:
  std::vector<std::string> characters_;
  CharacterIds ids_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_character_tokenizer(std::vector<std::string> characters) {
  if (characters.empty())
    return invalid("the character vocabulary is empty; build it from a text that is not");
  CharacterIds ids;
  ids.ascii.fill(-1);
  for (size_t id = 0; id < characters.size(); ++id) {
    const std::string& text = characters[id];
    const DecodedChar c = text.empty() ? DecodedChar{} : decode_char(text.data(), text.data() + text.size());
    if (c.code == kInvalidChar || c.bytes != text.size()) {
      return invalid(fmt::format("the entry {} of the vocabulary is not one character", id));
    }
    if (ids.find(c.code) >= 0)
      return invalid(fmt::format("the character U+{:04X} is twice in the vocabulary", c.code));
    if (c.code < ids.ascii.size()) {
      ids.ascii[c.code] = static_cast<int32_t>(id);
    } else {
      ids.wide[c.code] = static_cast<int32_t>(id);
    }
  }
  return std::unique_ptr<Tokenizer>(
      std::make_unique<CharacterTokenizer>(std::move(characters), std::move(ids)));
}

Result<void> CharacterVocabulary::add(std::string_view text) {
  if (seen_.empty()) seen_.resize(kCodePoints);
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const DecodedChar c = decode_char(p, end);
    if (c.code == kInvalidChar) {
      return invalid(
          fmt::format("byte {} of the text, 0x{:02x}, is not UTF-8, which a character tokenizer needs; use "
                      "the tokenizer 'bytes' or a BPE",
                      p - text.data(), static_cast<uint8_t>(*p)));
    }
    seen_[c.code] = true;
    p += c.bytes;
  }
  return {};
}

Result<std::unique_ptr<Tokenizer>> CharacterVocabulary::build() const {
  std::vector<std::string> characters;
  for (uint32_t code = 0; code < seen_.size(); ++code) {
    if (!seen_[code]) continue;
    char bytes[4];
    characters.emplace_back(bytes, encode_char(code, bytes));
  }
  return make_character_tokenizer(std::move(characters));
}

}  // namespace ingot::data
