#include "cli/train_configuration.h"

#include <filesystem>

#include "base/file.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cli/run_folder.h"
#include "train/checkpointing.h"

namespace ingot::cli {
namespace {

constexpr Option kOptions[] = {
    {"Configuration", "--set", "KEY=VALUE", "override a key, as train.train_steps=100; may be repeated", "",
     true},
    {"Configuration", "--max-time", "TIME", "stop after this time, as 20min or 2h",
     "20min without steps or tokens"},
    {"Configuration", "--run-dir", "DIR", "folder of the run", "runs/NAME-N"},
    {"Many ranks", "--transport", "NAME", "what carries messages between ranks", "ucx"},
    {"Output", "--dry-run", "", "print the plan and stop", ""},
    {"Output", "--dump-config", "", "print the configuration with every key and stop", ""},
    {"Output", "--json", "", "with --dry-run: the plan as JSON", ""},
    {"Output", "--quiet", "", "print warnings and errors only", ""},
};

bool is_config(const std::string& path) { return path.ends_with(".toml"); }

std::string stem_of(const std::vector<std::string>& inputs) {
  if (inputs.empty()) return "run";
  std::string stem = std::filesystem::path(inputs[0]).stem().string();
  while (stem.find('.') != std::string::npos) stem = std::filesystem::path(stem).stem().string();
  return stem.empty() || stem == "-" ? "run" : stem;
}

// A string as TOML writes it.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::vector<std::string> overrides_of(const Arguments& arguments, const std::vector<std::string>& texts) {
  std::vector<std::string> overrides;
  if (!texts.empty()) {
    std::string list;
    for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + quoted(text);
    overrides.push_back("data.train=[" + list + "]");
  }
  if (const auto time = arguments.get("--max-time")) overrides.push_back("train.max_time=" + quoted(*time));
  if (const auto dir = arguments.get("--run-dir")) overrides.push_back("run.dir=" + quoted(*dir));
  for (const std::string& pair : arguments.all("--set")) overrides.push_back(pair);
  return overrides;
}

// Weights that are started from bring their shape, where the configuration names none.
Result<spec::LoadedSpec> load_with_shape(const std::string& path, std::vector<std::string> overrides) {
  INGOT_TRY(spec::LoadedSpec loaded, spec::load_spec(path, overrides));
  const std::string& from = loaded.spec.train.init_from;
  if (from.empty() || loaded.spec.model.is_sized() || loaded.is_set("model.from")) return loaded;
  overrides.push_back("model.from=" + quoted(from));
  return spec::load_spec(path, overrides);
}

Result<std::string> configuration_file(const std::vector<std::string>& inputs) {
  for (const std::string& path : inputs) {
    if (inputs.size() > 1 && is_config(path))
      return invalid(
          fmt::format("{}   a configuration stands alone; name the texts in it (data.train), or with "
                      "--set data.train=PATH",
                      path));
  }
  return inputs.size() == 1 && is_config(inputs[0]) ? inputs[0] : std::string();
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Result<void> take_run_configuration(const std::string& run_dir, const std::vector<std::string>& overrides,
                                    TrainConfiguration& configuration) {
  INGOT_TRY(RunConfiguration own, load_run_configuration(run_dir, overrides));
  configuration.loaded = std::move(own.loaded);
  if (!own.warning.empty()) configuration.warnings.push_back(std::move(own.warning));
  return {};
}

}  // namespace

Result<TrainConfiguration> load_train_configuration(const Arguments& arguments) {
  const std::vector<std::string>& inputs = arguments.inputs();
  INGOT_TRY(const std::string file, configuration_file(inputs));
  TrainConfiguration configuration;
  spec::LoadedSpec& loaded = configuration.loaded;
  std::string run_dir;
  if (file.empty() && inputs.size() == 1 && is_run_folder(inputs[0])) {
    run_dir = without_slashes(inputs[0]);
    INGOT_TRY_VOID(take_run_configuration(run_dir, overrides_of(arguments, {}), configuration));
  } else {
    const std::vector<std::string> overrides =
        overrides_of(arguments, file.empty() ? inputs : std::vector<std::string>());
    INGOT_TRY(loaded, load_with_shape(file, overrides));
    run_dir = loaded.spec.run.dir;
    const bool sized = loaded.is_set("model.hidden_size") || loaded.spec.model.is_sized();
    // What was decided when the run began holds (size, steps, batch), unless this command says otherwise.
    if (!run_dir.empty() && is_run_folder(run_dir) && loaded.spec.checkpoint.resume != "never" && !sized)
      INGOT_TRY_VOID(take_run_configuration(run_dir, overrides, configuration));
  }
  if (run_dir.empty()) run_dir = next_run_dir(stem_of(inputs));
  loaded.spec.run.dir = run_dir;
  INGOT_TRY(const std::vector<int64_t> steps, checkpoint::saved_steps(train::checkpoint_folder(run_dir)));
  configuration.begun = is_run_folder(run_dir) && loaded.spec.checkpoint.resume != "never";
  configuration.resumable = configuration.begun && !steps.empty();
  return configuration;
}

std::span<const Option> train_options() { return kOptions; }

std::vector<std::string> train_words(const Arguments& arguments) {
  std::vector<std::string> words = arguments.inputs();
  for (const Option& option : kOptions) {
    for (const std::string& value : arguments.all(option.flag))
      words.push_back(option.value.empty() ? std::string(option.flag)
                                           : fmt::format("{}={}", option.flag, value));
  }
  return words;
}

}  // namespace ingot::cli
