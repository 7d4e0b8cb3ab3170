#include "base/units.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/outcome.h"
#include "cli/run_folder.h"
#include "cli/training_data.h"
#include "train/replay.h"

namespace ingot::cli {
namespace {

constexpr Option kOptions[] = {
    {"Checks", "--replay", "", "train from the last but one checkpoint to the last again and compare", ""},
};

// Hashes every byte of every checkpoint. Returns how many are damaged.
Result<int> check_hashes(Console& console, const std::string& folder, const std::vector<int64_t>& steps) {
  int damaged = 0;
  for (const int64_t step : steps) {
    const std::string path = folder + "/" + checkpoint::step_folder(step);
    const auto opened = checkpoint::Checkpoint::open(path);
    const Result<void> sound = opened ? opened->verify() : Result<void>(opened.error());
    if (sound) {
      console.field("ok", fmt::format("{}  {}", path, format_bytes(opened->bytes())));
    } else {
      ++damaged;
      console.error(sound.error().message);
    }
  }
  return damaged;
}

Result<int> replay(Console& console, const RunFolder& run, const std::vector<int64_t>& steps) {
  if (steps.size() < 2)
    return invalid(fmt::format(
        "--replay needs two checkpoints, {} has {}; set checkpoint.save_interval to save more often",
        run.path, steps.size()));
  const std::string folder = train::checkpoint_folder(run.path);
  const std::string from = folder + "/" + checkpoint::step_folder(steps[steps.size() - 2]);
  const std::string to = folder + "/" + checkpoint::step_folder(steps.back());
  INGOT_TRY(const TrainingData data, open_training_data(run.loaded.spec, run.path + "/tokenizer.json"));
  INGOT_TRY(const Machine machine, find_machine(static_cast<int>(run.loaded.spec.run.threads.value_or(0)),
                                                run.loaded.spec.run.precision, false));
  INGOT_TRY(const train::Resolution resolution, train::resolve(run.loaded, machine.facts, data.facts()));
  console.field("replay", fmt::format("steps {} to {}", steps[steps.size() - 2], steps.back()));
  INGOT_TRY(const std::vector<std::string> differences,
            train::replay(resolution.run, data.prepared.dataset.train(), data.identity, from, to));
  for (const std::string& difference : differences) console.error(difference);
  if (differences.empty()) console.field("ok", "the same bits: parameters, optimizer state, scalars");
  return differences.empty() ? kDone : kFailed;
}

Result<int> verify(const Arguments& arguments, Console& console) {
  if (arguments.inputs().size() != 1)
    return invalid("ingot verify needs one run: ingot verify runs/book-1 --replay");
  INGOT_TRY(const RunFolder run, open_run(arguments.inputs()[0]));
  const std::string folder = train::checkpoint_folder(run.path);
  INGOT_TRY(const std::vector<int64_t> steps, checkpoint::saved_steps(folder));
  INGOT_TRY(const int damaged, check_hashes(console, folder, steps));
  if (damaged > 0) {
    console.error(fmt::format("{} of {} checkpoints damaged; the run goes on from the newest sound one",
                              damaged, steps.size()));
    return kFailed;
  }
  if (arguments.has("--replay")) return replay(console, run, steps);
  return kDone;
}

int run(const Arguments& arguments) {
  Console console(false);
  const auto code = verify(arguments, console);
  return code ? *code : fail(console, code.error());
}

}  // namespace

Verb verify_verb() {
  return {.name = "verify",
          .summary = "Check a run's hashes; train a part again and compare every bit.",
          .group = "Use",
          .example = "ingot verify runs/book-1 --replay",
          .input = "a run's folder",
          .options = kOptions,
          .see_also = "docs/formats/checkpoint.md",
          .run = run};
}

}  // namespace ingot::cli
