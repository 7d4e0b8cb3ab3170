#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/numbers.h"
#include "cli/outcome.h"
#include "cli/output_place.h"
#include "data/dataset_builder.h"
#include "data/describe.h"
#include "data/tokenizer/tokenizer.h"

namespace ingot::cli {
namespace {

// ---------------------------------------------------------------- data build

constexpr Option kBuildOptions[] = {
    {"Input", "--text-field", "NAME", "JSON field that holds the text", "text"},
    {"Input", "--validation", "F|PATH", "part kept for validation, or text of its own", "0.005"},
    {"Tokens", "--tokenizer", "FILE", "tokenizer.json, .tiktoken, or bytes", ""},
    {"Tokens", "--pattern", "NAME", "for .tiktoken: gpt2, cl100k, o200k", "by file name"},
    {"Tokens", "--bos", "", "put the begin-of-text token before every document", ""},
    {"Tokens", "--seed", "N", "which documents are for validation", "0"},
    {"Output", "--out", "DIR", "folder to write; kept whole or not at all", ""},
    {"Output", "--replace", "", "replace an existing folder", ""},
    {"Output", "--shard-size", "BYTES", "tokens of one file", "256MiB"},
    {"Output", "--json", "", "report as JSON", ""},
    {"Output", "--quiet", "", "print warnings and errors only", ""},
    {"Machine", "--threads", "N", "threads", "all that the process has"},
};

data::BuildOptions build_options(const Arguments& arguments, OptionReader& reader) {
  data::BuildOptions options;
  options.sources = arguments.inputs();
  options.text_field = arguments.get("--text-field").value_or(options.text_field);
  options.bos = arguments.has("--bos");
  options.out = arguments.get("--out").value_or("");
  options.replace = arguments.has("--replace");
  if (const auto validation = arguments.get("--validation")) {
    char* end = nullptr;
    const double fraction = std::strtod(validation->c_str(), &end);
    if (end != validation->c_str() && *end == '\0') {
      if (!(fraction >= 0 && fraction < 1))
        reader.mistake(
            fmt::format("--validation = {}   is not a part from 0 to below 1, nor a path", *validation));
      options.validation_fraction = fraction;
    } else {
      options.validation_sources = {*validation};
    }
  }
  options.shard_bytes = reader.bytes("--shard-size", options.shard_bytes);
  options.seed = static_cast<uint64_t>(reader.integer("--seed", 0, 0, INT64_MAX));
  options.threads = static_cast<int>(reader.integer("--threads", 0, 0, 4096));
  return options;
}

std::string progress_text(const data::BuildProgress& progress) {
  const double rate = progress.seconds > 0 ? static_cast<double>(progress.text_bytes) / progress.seconds : 0;
  std::string text =
      fmt::format("building        {}, {} tokens, {:.1f} MB/s", format_bytes(progress.text_bytes),
                  format_integer(progress.tokens), rate * 1e-6);
  if (progress.stored_bytes_total > 0 && progress.stored_bytes_done > 0) {
    const double done =
        static_cast<double>(progress.stored_bytes_done) / static_cast<double>(progress.stored_bytes_total);
    text +=
        fmt::format(", {:.0f} %, {} left", done * 100, format_duration(progress.seconds * (1 - done) / done));
  }
  return text;
}

Result<int> build(const Arguments& arguments, Console& console) {
  OptionReader reader(arguments);
  data::BuildOptions options = build_options(arguments, reader);
  if (arguments.inputs().empty())
    reader.mistake("no input: name text files, folders or globs, or - for standard input");
  if (!arguments.get("--tokenizer"))
    reader.mistake("--tokenizer is not given: a tokenizer.json, a .tiktoken file, or bytes");
  if (!arguments.get("--out")) reader.mistake("--out is not given: the folder to write");
  if (auto good = reader.done(); !good) {
    reader.mistake("see ingot data build --help");
    return reader.done().error();
  }
  INGOT_TRY_VOID(check_writable(options.out, "--out"));
  options.tokenizer_name = *arguments.get("--tokenizer");
  INGOT_TRY(
      const std::unique_ptr<data::Tokenizer> tokenizer,
      data::load_tokenizer(options.tokenizer_name, {.pattern = arguments.get("--pattern").value_or("")}));
  INGOT_TRY(const data::BuildReport report,
            data::build_dataset(*tokenizer, options, [&](const data::BuildProgress& progress) {
              console.live(progress_text(progress));
            }));
  for (const std::string& warning : report.manifest.warnings) console.warn(warning);
  if (arguments.has("--json")) {
    INGOT_TRY(const data::DatasetDescription description, data::describe_dataset(options.out, false));
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(description.json);
    json["seconds"] = report.seconds;
    json["encoding_seconds"] = report.encoding_seconds;
    (void)print_out(json.dump(2) + "\n");
    return kDone;
  }
  const auto& manifest = report.manifest;
  const double bytes = static_cast<double>(manifest.train.text_bytes + manifest.validation.text_bytes);
  const auto tokens = static_cast<double>(manifest.train.tokens + manifest.validation.tokens);
  console.field("built",
                fmt::format("{}: {} for training, {} for validation, {:.2f} bytes a token", options.out,
                            counted(manifest.train.tokens, "token"),
                            format_integer(manifest.validation.tokens), tokens > 0 ? bytes / tokens : 0));
  console.field(
      "", fmt::format("{} encoded at {:.1f} MB/s, {:.1f} s in all", format_bytes(static_cast<int64_t>(bytes)),
                      bytes / report.encoding_seconds * 1e-6, report.seconds));
  console.field("next", fmt::format("ingot train {}", options.out));
  return kDone;
}

int run_build(const Arguments& arguments) {
  Console console(arguments.has("--quiet") || arguments.has("--json"));
  const auto code = build(arguments, console);
  return code ? *code : fail(console, code.error());
}

// ---------------------------------------------------------------- data info

constexpr Option kInfoOptions[] = {
    {"Checks", "--verify", "", "read every block and check its hash", ""},
    {"Output", "--json", "", "as JSON", ""},
};

Result<int> info(const Arguments& arguments, Console& console) {
  if (arguments.inputs().size() != 1)
    return invalid("ingot data info needs one data set folder or .tok file");
  INGOT_TRY(const data::DatasetDescription description,
            data::describe_dataset(arguments.inputs()[0], arguments.has("--verify")));
  console.line(arguments.has("--json") ? description.json : description.text);
  for (const std::string& sentence : description.damaged) console.error(sentence);
  return description.damaged.empty() ? kDone : kFailed;
}

int run_info(const Arguments& arguments) {
  Console console(false);
  const auto code = info(arguments, console);
  return code ? *code : fail(console, code.error());
}

// ---------------------------------------------------------------- data cat

constexpr Option kCatOptions[] = {
    {"Choice", "--split", "NAME", "train or validation", "train"},
    {"Choice", "--document", "N", "the first document", "0"},
    {"Choice", "--count", "N", "documents", "1"},
    {"Choice", "--tokens", "N", "tokens of each at most; 0: all", "0"},
    {"Output", "--ids", "", "ids instead of text", ""},
};

Result<int> cat(const Arguments& arguments) {
  if (arguments.inputs().size() != 1) return invalid("ingot data cat needs one data set folder");
  data::CatOptions options;
  OptionReader reader(arguments);
  options.split = reader.choice("--split", {"train", "validation"});
  options.first_document = reader.integer("--document", 0, 0, INT64_MAX);
  options.documents = reader.integer("--count", 1, 1, INT64_MAX);
  options.max_tokens = reader.integer("--tokens", 0, 0, INT64_MAX);
  INGOT_TRY_VOID(reader.done());
  options.ids = arguments.has("--ids");
  INGOT_TRY(const data::Dataset dataset, data::Dataset::open(arguments.inputs()[0]));
  INGOT_TRY(const std::unique_ptr<data::Tokenizer> tokenizer, data::load_tokenizer(dataset.tokenizer_path()));
  INGOT_TRY_VOID(data::print_documents(dataset, *tokenizer, options, print_out));
  return kDone;
}

int run_cat(const Arguments& arguments) {
  Console console(false);
  const auto code = cat(arguments);
  return code ? *code : fail(console, code.error());
}

}  // namespace

Verb data_build_verb() {
  return {.name = "data build",
          .summary = "Turn text into token shards that training reads.",
          .group = "Data",
          .example = "ingot data build --tokenizer gpt2.tiktoken --out data/ corpus/*.jsonl.zst",
          .input = "txt, jsonl, and .gz or .zst of both; files, folders, globs, - for standard input",
          .options = kBuildOptions,
          .see_also = "ingot data info, docs/howto/data.md",
          .run = run_build};
}

Verb data_info_verb() {
  return {.name = "data info",
          .summary = "Say what a data set holds, and check it.",
          .group = "Data",
          .example = "ingot data info data/ --verify",
          .input = "a data set folder or one .tok file",
          .options = kInfoOptions,
          .see_also = "ingot data cat, docs/formats/token-shard.md",
          .run = run_info};
}

Verb data_cat_verb() {
  return {.name = "data cat",
          .summary = "Print documents of a data set as text or ids.",
          .group = "Data",
          .example = "ingot data cat data/ --document 3 --count 2",
          .input = "a data set folder",
          .options = kCatOptions,
          .see_also = "ingot data info",
          .run = run_cat};
}

}  // namespace ingot::cli
