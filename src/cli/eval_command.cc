#include <cmath>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/numbers.h"
#include "cli/outcome.h"
#include "cli/run_folder.h"
#include "data/prepared.h"
#include "train/evaluator.h"

namespace ingot::cli {
namespace {

constexpr Option kOptions[] = {
    {"Data", "--data", "PATH", "text or a data set folder; may be repeated", "validation data of the run",
     true},
    {"Data", "--text-field", "NAME", "JSON field that holds the text", "data.text_field of the run"},
    {"Data", "--split", "NAME", "train or validation", "validation where there is any"},
    {"Data", "--tokens", "N", "tokens at most", "all"},
    {"Output", "--json", "", "as JSON", ""},
    {"Machine", "--threads", "N", "threads", "all that the process has"},
};

// The stream to evaluate on: given data in whole, or the run's own validation part.
struct Stream {
  data::PreparedData data;
  const data::TokenStream* stream = nullptr;
  std::vector<std::string> paths;
  std::string split;  // of built data and of a run's own; empty where all of a text is taken

  // "a.txt", "a.txt and 2 more", "book.txt (validation)"
  std::string name() const {
    std::string text = paths[0];
    if (paths.size() > 1) text += fmt::format(" and {} more", paths.size() - 1);
    return split.empty() ? text : fmt::format("{} ({})", text, split);
  }
};

data::PrepareOptions prepare_options(const Arguments& arguments, const RunFolder& run) {
  const spec::DataSpec& spec = run.loaded.spec.data;
  const std::vector<std::string> given = arguments.all("--data");
  data::PrepareOptions options;
  options.tokenizer = run.path + "/tokenizer.json";
  options.cache_folder = cache_folder() + "/data";
  options.text_field = arguments.get("--text-field").value_or(spec.text_field);
  options.bos = spec.bos;
  options.train = given.empty() ? spec.train : given;
  options.validation_fraction = 0;
  if (!given.empty()) return options;
  options.validation_fraction = spec.validation.fraction;
  if (!spec.validation.path.empty()) options.validation = {spec.validation.path};
  options.seed = static_cast<uint64_t>(run.loaded.spec.run.seed);
  if (spec.tokenizer.empty()) options.tokenizer = "auto";
  return options;
}

Result<void> open_stream(const Arguments& arguments, const RunFolder& run, Stream& out) {
  const data::PrepareOptions options = prepare_options(arguments, run);
  const bool own = !arguments.get("--data");
  out.paths = options.train;
  INGOT_TRY(out.data, data::prepare_data(options));
  if (out.data.tokenizer->fingerprint() != run.tokenizer->fingerprint())
    return invalid(
        own ? fmt::format("{} has changed since this run began, so its validation part is another. Evaluate "
                          "on the text as it is now: --data {}",
                          out.name(), out.paths[0])
            : fmt::format(
                  "{} was built with another tokenizer than this run's; build it again with --tokenizer {}",
                  out.name(), run.path + "/tokenizer.json"));
  const bool has_validation = out.data.dataset.validation().tokens() > 0;
  const auto asked = arguments.get("--split");
  const std::string split = asked.value_or(has_validation ? "validation" : "train");
  if (split == "validation" && !has_validation)
    return invalid("there is no validation data; give --data, or --split train");
  out.stream = split == "train" ? &out.data.dataset.train() : &out.data.dataset.validation();
  if (own || asked || has_validation) out.split = split;
  return {};
}

Result<int> evaluate(const Arguments& arguments, Console& console) {
  if (arguments.inputs().size() != 1)
    return invalid("ingot eval needs one run: ingot eval runs/book-1 --data other.txt");
  OptionReader reader(arguments);
  const int64_t threads = reader.integer("--threads", 0, 0, 4096);
  const int64_t tokens = reader.integer("--tokens", -1, 1, INT64_MAX);
  (void)reader.choice("--split", {"train", "validation"});
  INGOT_TRY_VOID(reader.done());
  INGOT_TRY(const RunFolder run, open_run(arguments.inputs()[0]));
  for (const std::string& note : run.notes) console.warn(note);
  Stream data;
  INGOT_TRY_VOID(open_stream(arguments, run, data));
  for (const std::string& warning : data.data.warnings) console.warn(warning);
  const spec::RunSpec& spec = run.loaded.spec;
  train::EvaluatorOptions options;
  options.model = spec.model;
  options.precision =
      spec.run.precision == spec::Precision::kBf16 ? graph::Precision::kBF16 : graph::Precision::kF32;
  options.backend = spec.run.device == spec::DeviceKind::kReference ? "reference" : "cpu";
  options.threads = static_cast<int>(threads);
  options.seq_len = spec.data.seq_len;
  options.batch = spec.train.micro_batch_size.value_or(1);
  options.document_mask = spec.data.document_mask;
  INGOT_TRY(const std::unique_ptr<train::Evaluator> evaluator, train::Evaluator::create(options));
  INGOT_TRY_VOID(train::load_parameters(evaluator->weights(), run.checkpoint));
  INGOT_TRY(const train::Evaluation result, evaluator->evaluate(*data.stream, tokens));
  const double perplexity = std::exp(result.loss);
  const double bits = train::bits_per_byte(*data.stream, result.loss);
  if (arguments.has("--json")) {
    const nlohmann::ordered_json json = {{"format_version", 1},
                                         {"data", data.paths},
                                         {"split", data.split.empty() ? "all" : data.split},
                                         {"step", run.checkpoint.state().step},
                                         {"tokens", result.tokens},
                                         {"loss", result.loss},
                                         {"perplexity", perplexity},
                                         {"bits_per_byte", bits}};
    (void)print_out(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return kDone;
  }
  console.field(
      "loss", fmt::format("{:.4f} a token (natural logarithm), over {} of {}", without_nan_sign(result.loss),
                          counted(result.tokens, "token"), data.name()));
  console.field("perplexity", fmt::format("{:.3f} a token", without_nan_sign(perplexity)));
  console.field("bits per byte", fmt::format("{:.4f}", without_nan_sign(bits)));
  console.field("checkpoint", run.checkpoint.path());
  return kDone;
}

int run(const Arguments& arguments) {
  Console console(arguments.has("--json"));
  const auto code = evaluate(arguments, console);
  return code ? *code : fail(console, code.error());
}

}  // namespace

Verb eval_verb() {
  return {.name = "eval",
          .summary = "Loss, perplexity and bits per byte of a trained run.",
          .group = "Use",
          .example = "ingot eval runs/book-1 --data other.txt",
          .input = "a run's folder, or one of its checkpoints",
          .options = kOptions,
          .see_also = "ingot generate",
          .run = run};
}

}  // namespace ingot::cli
