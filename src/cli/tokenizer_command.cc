#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/hash.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/numbers.h"
#include "cli/outcome.h"
#include "cli/output_place.h"
#include "data/document_reader.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/train_bpe.h"

namespace ingot::cli {
namespace {

constexpr Option kTrainOptions[] = {
    {"Input", "--text-field", "NAME", "JSON field that holds the text", "text"},
    {"Tokens", "--kind", "NAME", "bpe or chars", "bpe"},
    {"Tokens", "--vocab-size", "N", "tokens, with the 256 bytes and end-of-text", "4096"},
    {"Tokens", "--pattern", "NAME", "gpt2, llama3, qwen2, o200k", "llama3"},
    {"Tokens", "--min-frequency", "N", "a pair seen less often is not merged", "2"},
    {"Output", "--out", "FILE", "tokenizer.json to write", ""},
    {"Output", "--quiet", "", "print warnings and errors only", ""},
    {"Machine", "--threads", "N", "threads; the result does not depend on it", "all that the process has"},
};

Result<std::unique_ptr<data::Tokenizer>> train_characters(data::DocumentReader& reader) {
  data::CharacterVocabulary vocabulary;
  data::DocumentPiece piece;
  for (;;) {
    INGOT_TRY(const bool more, reader.next(piece));
    if (!more) break;
    INGOT_TRY_VOID(vocabulary.add(piece.text));
  }
  return vocabulary.build();
}

Result<std::unique_ptr<data::Tokenizer>> train_merges(data::BpeTrainingOptions options,
                                                      data::DocumentReader& reader, Console& console) {
  options.progress = [&](const data::BpeTrainingProgress& progress) {
    console.live(fmt::format("tokenizer       {}: {}{}", progress.phase, format_integer(progress.done),
                             progress.total > 0 ? " of " + format_integer(progress.total) : ""));
  };
  data::DocumentPiece piece;
  const data::TextSource source = [&](std::string& text) -> Result<bool> {
    INGOT_TRY(const bool more, reader.next(piece));
    text = piece.text;
    return more;
  };
  return data::train_bpe(source, options);
}

Result<int> train(const Arguments& arguments, Console& console) {
  if (arguments.inputs().empty() || !arguments.get("--out"))
    return invalid(
        "ingot data tokenizer train needs text and --out: ingot data tokenizer train --out tok.json "
        "book.txt");
  OptionReader wanted(arguments);
  const std::string kind = wanted.choice("--kind", {"bpe", "chars"});
  data::BpeTrainingOptions options;
  options.vocab_size = static_cast<int32_t>(wanted.integer("--vocab-size", 4096, 257, INT32_MAX));
  options.min_frequency = wanted.integer("--min-frequency", 2, 1, INT64_MAX);
  options.pattern = wanted.choice("--pattern", {"llama3", "gpt2", "qwen2", "o200k"});
  const int64_t threads = wanted.integer("--threads", 0, 0, 4096);
  options.threads = threads > 0 ? static_cast<int>(threads) : available_threads();
  INGOT_TRY_VOID(wanted.done());
  INGOT_TRY_VOID(check_writable(*arguments.get("--out"), "--out"));
  INGOT_TRY(std::vector<data::SourceFile> files,
            data::find_source_files(arguments.inputs(), data::TextFormat::kAuto));
  data::ReaderOptions reading;
  reading.text_field = arguments.get("--text-field").value_or(reading.text_field);
  data::DocumentReader reader(std::move(files), reading);
  INGOT_TRY(const std::unique_ptr<data::Tokenizer> tokenizer,
            kind == "chars" ? train_characters(reader) : train_merges(std::move(options), reader, console));
  for (const std::string& sentence : data::describe_skipped(reader.stats())) console.warn(sentence);
  INGOT_TRY_VOID(data::save_tokenizer(*tokenizer, *arguments.get("--out")));
  console.field("tokenizer", fmt::format("{}: {} from {} of text", *arguments.get("--out"),
                                         counted(tokenizer->vocab_size(), "token"),
                                         format_bytes(reader.stats().text_bytes)));
  return kDone;
}

int run_train(const Arguments& arguments) {
  Console console(arguments.has("--quiet"));
  const auto code = train(arguments, console);
  return code ? *code : fail(console, code.error());
}

constexpr Option kInfoOptions[] = {
    {"Input", "--pattern", "NAME", "for .tiktoken: gpt2, cl100k, o200k", "by file name"},
    {"Output", "--encode", "TEXT", "the ids of this text", ""},
    {"Output", "--decode", "IDS", "the text of these ids, comma-separated", ""},
    {"Output", "--json", "", "as JSON", ""},
};

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<int> encode(const data::Tokenizer& tokenizer, const std::string& text, bool json) {
  std::vector<int32_t> ids;
  INGOT_TRY_VOID(tokenizer.encoder()->encode(text, ids));
  INGOT_TRY_VOID(print_out((json ? dumped({{"format_version", 1}, {"text", text}, {"ids", ids}})
                                 : fmt::format("{}", fmt::join(ids, ","))) +
                           "\n"));
  return kDone;
}

Result<int> decode(const data::Tokenizer& tokenizer, const std::string& list, bool json) {
  INGOT_TRY(const std::vector<int32_t> ids, parse_ids("--decode", list));
  const std::string text = tokenizer.decode(ids);
  INGOT_TRY_VOID(
      print_out((json ? dumped({{"format_version", 1}, {"text", text}, {"ids", ids}}) : text) + "\n"));
  return kDone;
}

Result<int> info(const Arguments& arguments, Console& console) {
  if (arguments.inputs().size() != 1)
    return invalid("ingot data tokenizer info needs one tokenizer file or folder");
  INGOT_TRY(
      const std::unique_ptr<data::Tokenizer> tokenizer,
      data::load_tokenizer(arguments.inputs()[0], {.pattern = arguments.get("--pattern").value_or("")}));
  const bool json = arguments.has("--json");
  if (const auto text = arguments.get("--encode")) return encode(*tokenizer, *text, json);
  if (const auto list = arguments.get("--decode")) return decode(*tokenizer, *list, json);
  const std::string fingerprint = hash_hex(tokenizer->fingerprint());
  if (json) {
    nlohmann::ordered_json object = {
        {"format_version", 1}, {"kind", tokenizer->kind()}, {"tokens", tokenizer->vocab_size()}};
    for (const auto& [key, value] : tokenizer->description()) object[std::string(key)] = value;
    object["fingerprint"] = fingerprint;
    INGOT_TRY_VOID(print_out(dumped(object) + "\n"));
    return kDone;
  }
  console.field("kind", tokenizer->kind());
  console.field("tokens", format_integer(tokenizer->vocab_size()));
  for (const auto& [key, value] : tokenizer->description()) console.field(key, value);
  console.field("fingerprint", fingerprint);
  return kDone;
}

int run_info(const Arguments& arguments) {
  Console console(false);
  const auto code = info(arguments, console);
  return code ? *code : fail(console, code.error());
}

}  // namespace

Verb tokenizer_train_verb() {
  return {.name = "data tokenizer train",
          .summary = "Train a byte-level BPE (or character) vocabulary.",
          .group = "Data",
          .example = "ingot data tokenizer train --vocab-size 8192 --out tokenizer.json corpus/*.txt",
          .input = "txt, jsonl, and .gz or .zst of both; files, folders, globs, - for standard input",
          .options = kTrainOptions,
          .see_also = "ingot data build, docs/howto/data.md",
          .run = run_train};
}

Verb tokenizer_info_verb() {
  return {.name = "data tokenizer info",
          .summary = "Say what a tokenizer is; encode or decode with it.",
          .group = "Data",
          .example = "ingot data tokenizer info tokenizer.json --encode \"Hello world\"",
          .input = "tokenizer.json, a folder that holds one, a .tiktoken file, or bytes",
          .options = kInfoOptions,
          .see_also = "ingot data tokenizer train",
          .run = run_info};
}

}  // namespace ingot::cli
