#include "base/units.h"
#include "cli/commands.h"
#include "cli/numbers.h"
#include "cli/outcome.h"
#include "cli/output_place.h"
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
  OptionReader reader(arguments);
  const std::string dtype = reader.choice("--dtype", {"fp32", "bf16"});
  INGOT_TRY_VOID(reader.done());
  INGOT_TRY(const RunFolder run, open_run(arguments.inputs()[0]));
  for (const std::string& note : run.notes) console.warn(note);
  std::string folder = *arguments.get("--to");
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  INGOT_TRY_VOID(check_writable(folder, "--to"));
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
