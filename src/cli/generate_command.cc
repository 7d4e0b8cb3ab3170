#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/numbers.h"
#include "cli/outcome.h"
#include "cli/text_generation.h"

namespace ingot::cli {
namespace {

constexpr Option kOptions[] = {
    {"Text", "--prompt", "TEXT", "what to go on from", "the beginning of a document"},
    {"Text", "--tokens", "N", "tokens to add at most", "100"},
    {"Text", "--samples", "N", "texts to make", "1"},
    {"Choice", "--temperature", "F", "0 takes the most likely token each time", "0.8"},
    {"Choice", "--top-k", "N", "among the N most likely; 0: all", "0"},
    {"Choice", "--top-p", "F", "among the fewest that have this probability", "1"},
    {"Choice", "--seed", "N", "the same seed gives the same text", "1"},
    {"Output", "--json", "", "one object a text", ""},
    {"Output", "--logits", "IDS", "print the logits after these ids (comma-separated) as JSON instead", ""},
    {"Machine", "--threads", "N", "threads", "all that the process has"},
};

Result<int> print_logits(const RunFolder& run, const std::string& list, int threads) {
  INGOT_TRY(const std::vector<int32_t> ids, parse_ids("--logits", list));
  INGOT_TRY(const std::unique_ptr<train::Decoder> decoder, open_decoder(run, threads));
  INGOT_TRY(const std::span<const float> logits, decoder->feed(ids));
  INGOT_TRY_VOID(print_out(nlohmann::json(std::vector<float>(logits.begin(), logits.end())).dump() + "\n"));
  return kDone;
}

Result<int> generate(const Arguments& arguments, Console& console) {
  if (arguments.inputs().size() != 1)
    return invalid("ingot generate needs one run: ingot generate runs/book-1 --prompt \"…\"");
  GenerateRequest request;
  request.prompt = arguments.get("--prompt").value_or("");
  OptionReader reader(arguments);
  request.tokens = reader.integer("--tokens", 100, 1, INT32_MAX);
  const int64_t samples = reader.integer("--samples", 1, 1, INT32_MAX);
  request.sampling.temperature = reader.real("--temperature", 0.8, 0, 100);
  request.sampling.top_k = reader.integer("--top-k", 0, 0, INT32_MAX);
  request.sampling.top_p = reader.real("--top-p", 1, 0, 1);
  request.sampling.seed = static_cast<uint64_t>(reader.integer("--seed", 1, 0, INT64_MAX));
  request.threads = static_cast<int>(reader.integer("--threads", 0, 0, 4096));
  INGOT_TRY_VOID(reader.done());
  INGOT_TRY(const RunFolder run, open_run(arguments.inputs()[0]));
  for (const std::string& note : run.notes) console.warn(note);
  if (const auto ids = arguments.get("--logits")) return print_logits(run, *ids, request.threads);
  for (request.sequence = 0; request.sequence < samples; ++request.sequence) {
    if (arguments.has("--json")) {
      INGOT_TRY(const GeneratedText made, generate_text(run, request));
      const nlohmann::ordered_json json = {
          {"prompt", request.prompt},          {"text", made.text},
          {"sample", request.sequence},        {"prompt_tokens", made.prompt_tokens},
          {"added_tokens", made.added_tokens}, {"ended_by", name_of(made.end)}};
      INGOT_TRY_VOID(print_out(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
      continue;
    }
    INGOT_TRY(const GeneratedText made, generate_text(run, request, [](std::string_view piece) {
                (void)print_out(piece);
                (void)std::fflush(stdout);
              }));
    INGOT_TRY_VOID(print_out(request.sequence + 1 < samples ? "\n---\n" : "\n"));
    if (made.end == TextEnd::kWindow)
      console.warn(fmt::format(
          "ended after {} of the {} asked for: prompt and text fill the {} that this model looks at",
          counted(made.added_tokens, "token"), format_integer(request.tokens), format_integer(made.window)));
  }
  return kDone;
}

int run(const Arguments& arguments) {
  Console console(false);
  const auto code = generate(arguments, console);
  return code ? *code : fail(console, code.error());
}

}  // namespace

Verb generate_verb() {
  return {.name = "generate",
          .summary = "Sample text from a trained run.",
          .group = "Use",
          .example = "ingot generate runs/book-1 --prompt \"The system\" --tokens 200",
          .input = "a run's folder, or one of its checkpoints",
          .options = kOptions,
          .see_also = "ingot eval, ingot export",
          .run = run};
}

}  // namespace ingot::cli
