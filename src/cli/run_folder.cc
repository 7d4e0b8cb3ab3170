#include "cli/run_folder.h"

#include "base/file.h"

namespace ingot::cli {
namespace {

constexpr std::string_view kCheckpoints = "/checkpoints/";

std::string trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<RunFolder> open_run(const std::string& path) {
  std::string folder = trimmed(path), step;
  if (const size_t at = folder.rfind(kCheckpoints); at != std::string::npos) {
    step = folder;
    folder = folder.substr(0, at);
  }
  const std::string config = folder + "/config.toml";
  if (!path_exists(config))
    return not_found(
        fmt::format("{} is not a run: it has no config.toml. Give the folder that ingot train named", path));
  INGOT_TRY(spec::LoadedSpec loaded, spec::load_spec(config, {}));
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
  INGOT_TRY(checkpoint::Checkpoint saved, checkpoint::Checkpoint::open(step));
  return RunFolder{folder, std::move(loaded), std::move(tokenizer), std::move(saved), std::move(notes)};
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
