#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/begun_run.h"
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
    {"Output", "--json", "", "as JSON", ""},
};

// What was found, and how it is told: lines as it comes, or one object at the end.
struct Findings {
  nlohmann::ordered_json json = {{"format_version", 1}};
  int damaged = 0;
  bool replayed_alike = true;
};

// Hashes every byte of every checkpoint.
void check_hashes(Console& console, const std::string& folder, const std::vector<int64_t>& steps,
                  Findings& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const int64_t step : steps) {
    const std::string path = folder + "/" + checkpoint::step_folder(step);
    const auto opened = checkpoint::Checkpoint::open(path);
    const Result<void> sound = opened ? opened->verify() : Result<void>(opened.error());
    nlohmann::ordered_json one = {{"step", step}, {"path", path}, {"sound", sound.has_value()}};
    if (sound) {
      one["bytes"] = opened->bytes();
      console.field("ok", fmt::format("{}  {}", path, format_bytes(opened->bytes())));
    } else {
      ++findings.damaged;
      one["damage"] = sound.error().message;
      console.error(sound.error().message);
    }
    list.push_back(std::move(one));
  }
  findings.json["checkpoints"] = std::move(list);
}

Result<void> replay(Console& console, const RunFolder& run, const std::vector<int64_t>& steps,
                    Findings& findings) {
  if (steps.size() < 2)
    return invalid(fmt::format(
        "--replay needs two checkpoints, {} has {}; set checkpoint.save_interval to save more often",
        run.path, steps.size()));
  const int64_t begin = steps[steps.size() - 2], end = steps.back();
  const std::string folder = train::checkpoint_folder(run.path);
  const std::string from = folder + "/" + checkpoint::step_folder(begin);
  const std::string to = folder + "/" + checkpoint::step_folder(end);
  INGOT_TRY(const TrainingData data, open_training_data(run.loaded.spec, run.path + "/tokenizer.json"));
  INGOT_TRY_VOID(check_same_data(run.path, run.loaded.spec.data.train, data.identity));
  INGOT_TRY(const Machine machine, find_machine(static_cast<int>(run.loaded.spec.run.threads.value_or(0)),
                                                run.loaded.spec.run.precision, false));
  INGOT_TRY(const train::Resolution resolution, train::resolve(run.loaded, machine.facts, data.facts()));
  console.field("replay", fmt::format("steps {} to {}", begin, end));
  INGOT_TRY(const std::vector<std::string> differences,
            train::replay(resolution.run, data.prepared.dataset.train(), data.identity, from, to));
  for (const std::string& difference : differences) console.error(difference);
  if (differences.empty()) console.field("ok", "the same bits: parameters, optimizer state, scalars");
  findings.replayed_alike = differences.empty();
  findings.json["replay"] = {{"from_step", begin}, {"to_step", end}, {"differences", differences}};
  return {};
}

Result<int> verify(const Arguments& arguments, Console& console) {
  if (arguments.inputs().size() != 1)
    return invalid("ingot verify needs one run: ingot verify runs/book-1 --replay");
  INGOT_TRY(const RunFolder run, open_run(arguments.inputs()[0]));
  for (const std::string& note : run.notes) console.warn(note);
  const std::string folder = train::checkpoint_folder(run.path);
  INGOT_TRY(const std::vector<int64_t> steps, checkpoint::saved_steps(folder));
  Findings findings;
  check_hashes(console, folder, steps, findings);
  if (findings.damaged > 0) {
    console.error(fmt::format("{} of {} checkpoints damaged; the run goes on from the newest sound one",
                              findings.damaged, steps.size()));
  } else if (arguments.has("--replay")) {
    INGOT_TRY_VOID(replay(console, run, steps, findings));
  }
  if (arguments.has("--json"))
    INGOT_TRY_VOID(print_out(
        findings.json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"));
  return findings.damaged == 0 && findings.replayed_alike ? kDone : kFailed;
}

int run(const Arguments& arguments) {
  Console console(arguments.has("--json"));
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
