#include "cli/begun_run.h"

#include <algorithm>
#include <array>

#include "base/counted.h"
#include "checkpoint/checkpoint.h"
#include "cli/run_folder.h"

namespace ingot::cli {
namespace {

// What weights, data order and the meaning of a step rest on. Dropout may change, and so may everything that
// a prefix here does not name.
bool is_fixed(const std::string& key) {
  constexpr std::array kFixed = {"data.seq_len", "data.tokenizer",          "data.validation",
                                 "data.bos",     "train.global_batch_size", "run.seed"};
  if (std::find(kFixed.begin(), kFixed.end(), key) != kFixed.end()) return true;
  return key.starts_with("model.") && key.find("pdrop") == std::string::npos &&
         key.find("dropout") == std::string::npos;
}

// Said in other words in the run's own configuration, which is resolved: compared where the run is loaded.
bool is_resolved_away(const std::string& key) {
  constexpr std::array kAway = {"run.dir", "train.train_tokens", "train.global_batch_tokens"};
  return std::find(kAway.begin(), kAway.end(), key) != kAway.end();
}

// Less than this is left of a time budget that ended: its last evaluation and save were held back for.
double used_up_seconds(double max_time) { return std::max(0.02 * max_time, std::min(3.0, 0.2 * max_time)); }

double training_seconds(const checkpoint::StateRecord& record) {
  for (const auto& [name, value] : record.scalars) {
    if (name == "training_seconds") return value;
  }
  return 0;
}

}  // namespace

Result<std::vector<std::string>> changes_of_begun_run(const std::string& run_dir,
                                                      const spec::LoadedSpec& loaded) {
  INGOT_TRY(const RunConfiguration own, load_run_configuration(run_dir, {}));
  std::vector<std::string> changes;
  std::string refused;
  for (const spec::Difference& one : spec::diff_specs(own.loaded.spec, loaded.spec)) {
    if (!loaded.is_set(one.key) || is_resolved_away(one.key)) continue;
    const std::string line = fmt::format("{}: {} before, {} now", one.key, one.before, one.after);
    if (is_fixed(one.key)) {
      refused += "  " + line + "\n";
    } else {
      changes.push_back(line);
    }
  }
  if (refused.empty()) return changes;
  return invalid(
      fmt::format("{} was begun with another configuration, in what a run cannot change:\n{}"
                  "Go on with its own: ingot train {}; or start a new run in another folder: --run-dir DIR",
                  run_dir, refused, run_dir));
}

Result<void> check_same_data(const std::string& run_dir, const std::vector<std::string>& train,
                             const train::DataIdentity& now) {
  INGOT_TRY(const std::optional<checkpoint::Latest> newest,
            checkpoint::latest(train::checkpoint_folder(run_dir)));
  if (!newest) return {};
  INGOT_TRY(const checkpoint::Checkpoint saved, checkpoint::Checkpoint::open(newest->path));
  const checkpoint::StateRecord& then = saved.state();
  if (then.data_fingerprint == now.data && then.tokenizer_fingerprint == now.tokenizer) return {};
  const bool tokenizer = then.tokenizer_fingerprint != now.tokenizer;
  return invalid(fmt::format(
      "{}   has changed since {} began{}, so the run cannot go on with it. Put back what it began with; or "
      "start "
      "a new run from its weights, with its own tokenizer:\n  ingot export {} --to hf-folder/\n"
      "  ingot train {} --set train.init_from=hf-folder/",
      train[0], run_dir, tokenizer ? " (its tokens are others now)" : "", run_dir, fmt::join(train, " ")));
}

Result<std::optional<FinishedRun>> finished_run(const std::string& run_dir, const spec::RunSpec& spec) {
  std::optional<FinishedRun> finished;
  INGOT_TRY(const std::optional<checkpoint::Latest> newest,
            checkpoint::latest(train::checkpoint_folder(run_dir)));
  if (!newest) return finished;
  INGOT_TRY(const checkpoint::Checkpoint saved, checkpoint::Checkpoint::open(newest->path));
  const checkpoint::StateRecord& state = saved.state();
  std::string loss;
  if (state.best_validation_loss)
    loss = fmt::format(", best validation loss {:.3f} at step {}", *state.best_validation_loss,
                       format_integer(state.best_validation_step));
  const double seconds = training_seconds(state);
  if (spec.train.train_steps && state.step >= *spec.train.train_steps)
    finished = FinishedRun{
        fmt::format("{} of {} steps are done{}", format_integer(state.step),
                    format_integer(*spec.train.train_steps), loss),
        fmt::format("ingot train {} --set train.train_steps={}{}", run_dir, state.step * 2,
                    spec.train.max_time ? fmt::format(" --max-time {:.0f}s", 2 * *spec.train.max_time) : "")};
  else if (spec.train.max_time && *spec.train.max_time - seconds < used_up_seconds(*spec.train.max_time))
    finished =
        FinishedRun{fmt::format("its time of {} is used up after {}{}", format_duration(*spec.train.max_time),
                                counted(state.step, "step"), loss),
                    fmt::format("ingot train {} --max-time {:.0f}s", run_dir, 2 * *spec.train.max_time)};
  return finished;
}

}  // namespace ingot::cli
