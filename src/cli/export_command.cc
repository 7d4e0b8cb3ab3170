#include "base/units.h"
#include "cli/commands.h"
#include "cli/outcome.h"
#include "cli/run_folder.h"
#include "train/hugging_face.h"

namespace ingot::cli {
namespace {

constexpr Option kOptions[] = {
    {"Output", "--to", "DIR", "folder to write; kept whole or not at all", ""},
    {"Output", "--dtype", "TYPE", "fp32 or bf16", "fp32"},
    {"Output", "--replace", "", "replace an existing folder", ""},
};

Result<int> export_run(const Arguments& arguments, Console& console) {
  if (arguments.inputs().size() != 1 || !arguments.get("--to"))
    return invalid("ingot export needs a run and a folder: ingot export runs/book-1 --to hf-folder/");
  const std::string dtype = arguments.get("--dtype").value_or("fp32");
  if (dtype != "fp32" && dtype != "bf16")
    return invalid(fmt::format("--dtype = {}   is not fp32 or bf16", dtype));
  INGOT_TRY(const RunFolder run, open_run(arguments.inputs()[0]));
  for (const std::string& note : run.notes) console.warn(note);
  std::string folder = *arguments.get("--to");
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  INGOT_TRY(const checkpoint::ExportReport report,
            train::export_folder(run.checkpoint, run.loaded.spec.model,
                                 {.folder = folder,
                                  .tokenizer_json = run.tokenizer->to_hugging_face_json(),
                                  .bf16 = dtype == "bf16",
                                  .replace = arguments.has("--replace")}));
  console.field("exported",
                fmt::format("{} from step {}: {} tensors, {}", folder, run.checkpoint.state().step,
                            report.tensors, format_bytes(report.bytes)));
  console.field("", "config.json, model.safetensors and tokenizer.json, as transformers reads them");
  return kDone;
}

int run(const Arguments& arguments) {
  Console console(false);
  const auto code = export_run(arguments, console);
  return code ? *code : fail(console, code.error());
}

}  // namespace

Verb export_verb() {
  return {.name = "export",
          .summary = "Write a trained model as a Hugging Face folder.",
          .group = "Use",
          .example = "ingot export runs/book-1 --to hf-folder/",
          .input = "a run's folder, or one of its checkpoints",
          .options = kOptions,
          .see_also = "train.init_from in docs/howto/train.md starts from such a folder",
          .run = run};
}

}  // namespace ingot::cli
