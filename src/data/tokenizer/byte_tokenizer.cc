#include <numeric>

#include "base/hash.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/hugging_face_json.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::data {
namespace {

constexpr int32_t kBytes = 256;
constexpr std::string_view kEndOfText = "<|endoftext|>";

class ByteEncoder final : public Encoder {
 public:
  Result<void> encode(std::string_view text, std::vector<int32_t>& out) override {
    const size_t before = out.size();
    out.resize(before + text.size());
    for (size_t i = 0; i < text.size(); ++i) out[before + i] = static_cast<uint8_t>(text[i]);
    return {};
  }
};

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() : bytes_(kBytes, '\0') {
    std::iota(bytes_.begin(), bytes_.end(), '\0');
    set_name("bytes");
  }

  std::string_view kind() const override { return "bytes"; }
  int32_t vocab_size() const override { return kBytes + 1; }
  std::optional<int32_t> end_of_text() const override { return kBytes; }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<ByteEncoder>(); }
  std::string_view token_bytes(int32_t id) const override {
    if (id == kBytes) return kEndOfText;
    return id >= 0 && id < kBytes ? std::string_view(bytes_).substr(static_cast<size_t>(id), 1)
                                  : std::string_view();
  }
  std::string to_hugging_face_json() const override {
    HuggingFaceJson json;
    json.added = {{kBytes, std::string(kEndOfText), true, false}};
    json.pre_tokenizer = HuggingFaceJson::byte_level(false);
    json.decoder = HuggingFaceJson::byte_level(false);
    for (int32_t id = 0; id < kBytes; ++id) json.vocab.push_back(to_byte_alphabet(token_bytes(id)));
    json.vocab.emplace_back(kEndOfText);
    return json.to_string();
  }
  uint64_t fingerprint() const override { return hash64(kind()); }
  std::vector<std::pair<std::string, std::string>> description() const override {
    return {{"kind", "bytes"},
            {"vocabulary", std::to_string(vocab_size())},
            {"end of text", fmt::format("{} {}", kBytes, kEndOfText)}};
  }

 private:
  std::string bytes_;  // every byte once, in order
};

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace ingot::data
