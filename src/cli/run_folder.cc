#include "cli/run_folder.h"

#include "base/file.h"

namespace ingot::cli {
namespace {

constexpr std::string_view kCheckpoints = "/checkpoints/";

std::string trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

constexpr std::string_view kFirstLine = "# The whole configuration of this run; docs/howto/train.md";
constexpr std::string_view kLastLine = "# end\n";

bool is_whole(std::string_view text) {
  return !text.empty() && (!text.starts_with(kFirstLine) || text.ends_with(kLastLine));
}

}  // namespace

bool is_run_folder(const std::string& path) {
  const auto has = [&](const char* name) { return path_exists(path + "/" + name); };
  return has("config.toml") || has("checkpoints") || (has("metrics.jsonl") && has("events.jsonl"));
}

Result<void> write_run_configuration(const std::string& run_dir, const spec::RunSpec& spec) {
  return write_file_atomically(run_dir + "/config.toml",
                               fmt::format("{}\n{}{}", kFirstLine, spec::dump_spec(spec), kLastLine));
}

Result<RunConfiguration> load_run_configuration(const std::string& run_dir,
                                                const std::vector<std::string>& overrides) {
  RunConfiguration configuration;
  const std::string path = run_dir + "/config.toml";
  const bool there = path_exists(path);
  if (there) {
    INGOT_TRY(const std::string text, read_file(path));
    if (is_whole(text)) {
      INGOT_TRY(configuration.loaded, spec::load_spec(path, overrides));
      return configuration;
    }
  }
  const std::string what = fmt::format("{} is {}", path, there ? "not whole" : "missing");
  INGOT_TRY(const std::optional<checkpoint::Latest> newest,
            checkpoint::latest(train::checkpoint_folder(run_dir)));
  if (!newest)
    return invalid(fmt::format(
        "{}, and there is no checkpoint that keeps a copy: nothing to go on from. Start a new run", what));
  INGOT_TRY(const checkpoint::Checkpoint saved, checkpoint::Checkpoint::open(newest->path));
  INGOT_TRY(configuration.loaded, spec::parse_spec(saved.state().configuration, newest->path, overrides));
  configuration.warning = fmt::format("{}; the copy in {} is used", what, newest->path);
  return configuration;
}

Result<RunFolder> open_run(const std::string& path) {
  std::string folder = trimmed(path), step;
  if (const size_t at = folder.rfind(kCheckpoints); at != std::string::npos) {
    step = folder;
    folder = folder.substr(0, at);
  }
  if (!is_run_folder(folder))
    return not_found(
        fmt::format("{} is not a run: it has no config.toml. Give the folder that ingot train named", path));
  INGOT_TRY(RunConfiguration configuration, load_run_configuration(folder, {}));
  INGOT_TRY(std::unique_ptr<data::Tokenizer> tokenizer, data::load_tokenizer(folder + "/tokenizer.json"));
  std::vector<std::string> notes;
  if (step.empty()) {
    INGOT_TRY(const std::optional<checkpoint::Latest> newest,
              checkpoint::latest(train::checkpoint_folder(folder)));
    if (!newest)
      return not_found(
          fmt::format("{} has no checkpoint yet; ingot train {} goes on with it", folder, folder));
    step = newest->path;
    notes = newest->notes;
  }
  if (!configuration.warning.empty()) notes.push_back(configuration.warning);
  INGOT_TRY(checkpoint::Checkpoint saved, checkpoint::Checkpoint::open(step));
  return RunFolder{folder, std::move(configuration.loaded), std::move(tokenizer), std::move(saved),
                   std::move(notes)};
}

std::string next_run_dir(const std::string& stem) {
  for (int n = 1;; ++n) {
    std::string path = fmt::format("runs/{}-{}", stem, n);
    if (!path_exists(path)) return path;
  }
}

Result<std::unique_ptr<train::Decoder>> open_decoder(const RunFolder& run, int threads) {
  train::DecoderOptions options;
  options.model = run.loaded.spec.model;
  options.precision = run.loaded.spec.run.precision == spec::Precision::kBf16 ? graph::Precision::kBF16
                                                                              : graph::Precision::kF32;
  options.backend = run.loaded.spec.run.device == spec::DeviceKind::kReference ? "reference" : "cpu";
  options.threads = threads;
  INGOT_TRY(std::unique_ptr<train::Decoder> decoder, train::Decoder::create(options));
  INGOT_TRY_VOID(train::load_parameters(decoder->weights(), run.checkpoint));
  return decoder;
}

}  // namespace ingot::cli
