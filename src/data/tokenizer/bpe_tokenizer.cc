#include "data/tokenizer/bpe_tokenizer.h"

#include <algorithm>

#include "base/hash.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe_encoder.h"
#include "data/tokenizer/nfc.h"
#include "data/tokenizer/scanner.h"
#include "data/tokenizer/unicode_classes.h"

namespace ingot::data {
namespace {

// What encoders borrow.
struct BpeShared {
  BpeModel model;
  ScanFunction scan = nullptr;            // null: by `split`
  std::unique_ptr<SplitPattern> split{};  // null when there is a scanner
  bool nfc = false;
  TokenFinder raw_tokens{};         // looked for before normalization
  TokenFinder normalized_tokens{};  // and after it
};

class BpeEncoder final : public Encoder {
 public:
  explicit BpeEncoder(const BpeShared& shared) : shared_(shared), pieces_(shared.model) {
    if (shared.split) matcher_ = std::make_unique<SplitMatcher>(*shared.split);
  }

  Result<void> encode(std::string_view text, std::vector<int32_t>& out) override {
    const size_t before = out.size();
    auto result = between(shared_.raw_tokens, text, out, [&](std::string_view raw) -> Result<void> {
      const std::string_view normal = shared_.nfc ? to_nfc(raw, normal_) : raw;
      return between(shared_.normalized_tokens, normal, out,
                     [&](std::string_view gap) { return encode_text(gap, out); });
    });
    if (!result) out.resize(before);
    return result;
  }

 private:
  // Appends the ids of the found tokens, and calls encode_gap for the text between them.
  template <class EncodeGap>
  Result<void> between(const TokenFinder& finder, std::string_view text, std::vector<int32_t>& out,
                       const EncodeGap& encode_gap) {
    size_t done = 0;
    while (!finder.empty()) {
      const auto found = finder.find(text, done);
      if (!found) break;
      INGOT_TRY_VOID(encode_gap(text.substr(done, found->begin - done)));
      out.push_back(static_cast<int32_t>(found->id));
      done = found->begin + found->bytes;
    }
    return encode_gap(text.substr(done));
  }

  Result<void> encode_text(std::string_view text, std::vector<int32_t>& out) {
    const char* p = text.data();
    const char* const end = p + text.size();
    if (shared_.scan != nullptr) {
      std::array<const char*, 4 * BpePieceEncoder::kBatch> ends;
      while (p < end) {
        const size_t count = shared_.scan(p, end, ends.data(), ends.size());
        pieces_.encode(p, {ends.data(), count}, end, out);
        p = ends[count - 1];
      }
      return {};
    }
    INGOT_TRY_VOID(matcher_->split(text, offsets_));
    ends_.clear();
    for (const size_t offset : offsets_) ends_.push_back(p + offset);
    pieces_.encode(p, ends_, end, out);
    return {};
  }

  const BpeShared& shared_;
  BpePieceEncoder pieces_;
  std::unique_ptr<SplitMatcher> matcher_;
  std::vector<size_t> offsets_;
  std::vector<const char*> ends_;
  std::string normal_;
};

// Of all that determines ids.
uint64_t hash_definition(const BpeDefinition& definition) {
  Hasher hasher;
  const auto add_number = [&](uint64_t number) { hasher.update(std::as_bytes(std::span(&number, 1))); };
  const auto add_text = [&](std::string_view text) {
    add_number(text.size());
    hasher.update(std::as_bytes(std::span(text)));
  };
  add_text(kUnicodeVersion);
  add_text(definition.pattern ? pattern_row(*definition.pattern).expression : std::string_view());
  add_number(definition.expressions.size());
  for (const std::string& expression : definition.expressions) add_text(expression);
  for (const ExpressionDialect dialect : definition.dialects) add_number(static_cast<uint64_t>(dialect));
  add_number(definition.nfc ? 1 : 0);
  add_number(definition.whole_pieces ? 1 : 0);
  add_number(definition.tokens.size());
  for (const std::string& token : definition.tokens) add_text(token);
  add_number(definition.merges.size());
  for (const Merge& merge : definition.merges) {
    add_number(uint64_t{merge.left} << 32 | merge.right);
    add_number(merge.product);
  }
  for (const AddedToken& token : definition.added) {
    add_number(uint64_t{token.id} << 2 | (token.special ? 2 : 0) | (token.normalized ? 1 : 0));
  }
  add_number(definition.end_of_text ? static_cast<uint64_t>(*definition.end_of_text) : ~uint64_t{0});
  return hasher.digest();
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(BpeDefinition definition, BpeShared shared, int32_t vocab_size)
      : definition_(std::move(definition)), shared_(std::move(shared)), vocab_size_(vocab_size) {}

  std::string_view kind() const override { return "bpe"; }
  int32_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> end_of_text() const override { return definition_.end_of_text; }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<BpeEncoder>(shared_); }

  std::string_view token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size_) return {};
    const size_t index = static_cast<size_t>(id);
    return definition_.tokens[index];
  }

  std::string to_hugging_face_json() const override { return bpe_to_hugging_face_json(definition_); }

  uint64_t fingerprint() const override { return hash_definition(definition_); }

  std::vector<std::pair<std::string, std::string>> description() const override {
    const auto& tokens = definition_.tokens;
    const auto holes =
        std::count_if(tokens.begin(), tokens.end(), [](const std::string& t) { return t.empty(); });
    const auto special = std::count_if(definition_.added.begin(), definition_.added.end(),
                                       [](const AddedToken& token) { return token.special; });
    std::vector<std::pair<std::string, std::string>> lines = {
        {"kind", "byte-level BPE"},
        {"vocabulary", std::to_string(vocab_size_)},
        {"merges", std::to_string(definition_.merges.size())},
        {"added tokens", fmt::format("{}, of which {} special", definition_.added.size(), special)},
        {"unused ids", std::to_string(holes)},
        {"pattern", pattern_text()},
        {"normalizer", definition_.nfc ? "NFC" : "none"},
        {"whole pieces first", definition_.whole_pieces ? "yes" : "no"},
        {"Unicode", kUnicodeVersion}};
    if (definition_.end_of_text) {
      const auto id = *definition_.end_of_text;
      lines.emplace_back("end of text", fmt::format("{} {}", id, token_bytes(id)));
    } else {
      lines.emplace_back("end of text", "none");
    }
    return lines;
  }

 private:
  std::string pattern_text() const {
    if (definition_.pattern) return std::string(pattern_row(*definition_.pattern).name);
    return definition_.expressions.empty()
               ? "none"
               : fmt::format("{}", fmt::join(definition_.expressions, "  then  "));
  }

  BpeDefinition definition_;
  BpeShared shared_;
  int32_t vocab_size_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_bpe_tokenizer(BpeDefinition definition) {
  std::vector<uint8_t> missing;
  BpeModel::byte_ids(definition.tokens, missing);
  if (!missing.empty()) {
    return invalid(
        fmt::format("{} of the 256 bytes have no token (the first is 0x{:02x}), so some text could not be "
                    "encoded; this is not a complete byte-level vocabulary",
                    missing.size(), missing[0]));
  }
  size_t vocab_size = definition.tokens.size();
  for (const AddedToken& token : definition.added) vocab_size = std::max(vocab_size, size_t{token.id} + 1);
  if (vocab_size >= PairTable::kMaxSymbols) {
    return invalid(
        fmt::format("the vocabulary has {} ids; the limit is {}", vocab_size, PairTable::kMaxSymbols - 1));
  }
  definition.tokens.resize(vocab_size);
  // Before the added tokens have their bytes: a whole piece that looks like one is plain text.
  BpeShared shared{BpeModel(definition.tokens, definition.merges, definition.whole_pieces)};
  for (const AddedToken& token : definition.added) definition.tokens[token.id] = token.content;
  if (definition.pattern) {
    shared.scan = scan_function(*definition.pattern);
  } else {
    INGOT_TRY(shared.split, SplitPattern::compile(definition.expressions, definition.dialects));
  }
  shared.nfc = definition.nfc;
  for (const AddedToken& token : definition.added) {
    if (token.special || token.content.empty()) continue;
    (token.normalized ? shared.normalized_tokens : shared.raw_tokens).add(token.content, token.id);
  }
  return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(std::move(definition), std::move(shared),
                                                                   static_cast<int32_t>(vocab_size)));
}

}  // namespace ingot::data
