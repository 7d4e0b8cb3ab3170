#pragma once
// Tokenizers: text to ids and back. Three kinds: bytes, characters, byte-level BPE. This is not a text reader
// (data/reader.h) and knows no shards. To add a kind: derive Tokenizer and Encoder, and recognise its file in
// load_tokenizer (tokenizer.cc). To add a pre-tokenization pattern: a row in pattern.cc.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot::data {

// The encoding state of one thread: caches and buffers. It borrows its tokenizer, which must outlive it.
class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  virtual ~Encoder() = default;

  // Appends the ids of one document, or of a part cut where last_safe_cut (data/text_cut.h) allows, to `out`.
  // Ids depend on the text alone, never on what was encoded before. Text that looks like a special token is
  // plain text; no end-of-text is added. Any bytes are accepted: an invalid UTF-8 byte becomes its byte token
  // (a character tokenizer refuses it). On an error `out` is as it was.
  virtual Result<void> encode(std::string_view text, std::vector<int32_t>& out) = 0;
};

// Immutable and safe to share between threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;               // "bytes", "characters", "bpe"
  virtual int32_t vocab_size() const = 0;                  // one past the largest id, holes included
  virtual std::optional<int32_t> end_of_text() const = 0;  // the id put between documents, where there is one
  virtual std::unique_ptr<Encoder> encoder() const = 0;
  virtual std::string_view token_bytes(int32_t id) const = 0;  // empty for a hole or an id out of range

  // A Hugging Face tokenizer.json that gives the same ids; load_tokenizer reads it back.
  virtual std::string to_hugging_face_json() const = 0;

  // Hash of everything that determines ids: vocabulary, merges, pattern, normalizer, Unicode version,
  // end-of-text.
  virtual uint64_t fingerprint() const = 0;

  // Lines of "key: value" for people: pattern, normalizer, counts, Unicode version.
  virtual std::vector<std::pair<std::string, std::string>> description() const = 0;

  // What it was loaded from, or "bytes", or "trained".
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // The bytes of all ids in order; an id out of range or a hole adds nothing. May end inside a UTF-8
  // character.
  std::string decode(std::span<const int32_t> ids) const;

 private:
  std::string name_;
};

struct LoadOptions {
  // For .tiktoken files, which hold no pattern: "gpt2" (also r50k, p50k), "cl100k", "o200k". Empty: by file
  // name.
  std::string pattern;
};

// `path_or_name` is "bytes"; a .tiktoken file; a tokenizer.json of Hugging Face (byte-level BPE, or
// characters as written by us); or a folder that holds a tokenizer.json. "chars" is refused with a hint: it
// needs a corpus. Errors name the file, the line or entry, and what to do.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path_or_name,
                                                  const LoadOptions& options = {});

// The same from bytes in memory; `place` names them in messages. For tests, fuzzing, and archives.
Result<std::unique_ptr<Tokenizer>> parse_tiktoken(std::string_view file, std::string_view pattern,
                                                  const std::string& place);
Result<std::unique_ptr<Tokenizer>> parse_hugging_face_json(std::string_view json, const std::string& place);

// 256 ids that are byte values, and 256 for end-of-text.
std::unique_ptr<Tokenizer> byte_tokenizer();

// The sorted set of Unicode characters seen; no end-of-text. A character that was not seen is refused by
// encode.
class CharacterVocabulary {
 public:
  // Pieces of text in any order; a piece must not end inside a character. Refuses invalid UTF-8, naming the
  // byte.
  Result<void> add(std::string_view text);
  Result<std::unique_ptr<Tokenizer>> build() const;  // refuses an empty vocabulary

 private:
  std::vector<bool> seen_;
};

// Writes to_hugging_face_json() to `path` atomically.
Result<void> save_tokenizer(const Tokenizer& tokenizer, const std::string& path);

}  // namespace ingot::data
