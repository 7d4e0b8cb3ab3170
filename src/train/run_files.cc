#include "train/run_files.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"

namespace ingot::train {

std::string to_json(const MetricsLine& line) {
  nlohmann::ordered_json json;
  json["format_version"] = kMetricsFormatVersion;
  json["step"] = line.step;
  json["loss"] = line.loss;
  if (line.validation_loss) json["val_loss"] = *line.validation_loss;
  json["grad_norm"] = line.grad_norm;
  json["learning_rate"] = line.learning_rate;
  json["tokens"] = line.tokens;
  json["epochs"] = line.epochs;
  json["tokens_per_second"] = line.tokens_per_second;
  json["samples_per_second"] = line.samples_per_second;
  json["step_time_ms"] = line.step_time_ms;
  json["mfu"] = line.mfu;
  json["mfu_causal"] = line.mfu_causal;
  json["flops_per_second_per_device"] = line.flops_per_second_per_device;
  json["stall_ms"] = {{"data", line.data_stall_ms},
                      {"communication", line.communication_ms},
                      {"checkpoint", line.checkpoint_stall_ms}};
  json["memory_bytes"] = line.memory_bytes;
  json["loss_scale"] = line.loss_scale;
  if (line.skipped) json["skipped"] = true;
  json["skipped_steps"] = line.skipped_steps;
  json["clipped_steps"] = line.clipped_steps;
  return json.dump();
}

Result<RunFiles> RunFiles::open(const std::string& folder) {
  INGOT_TRY_VOID(make_directories(folder));
  INGOT_TRY(LineWriter metrics, LineWriter::open(folder + "/metrics.jsonl"));
  INGOT_TRY(LineWriter events, LineWriter::open(folder + "/events.jsonl"));
  return RunFiles(std::move(metrics), std::move(events));
}

Result<void> RunFiles::write(const MetricsLine& line) { return metrics_.append(to_json(line)); }

Result<void> RunFiles::write(const Event& event) {
  return events_.append(to_json_line(event, unix_seconds()));
}

Result<void> RunFiles::forget_after(const std::string& folder, int64_t step) {
  const std::string path = folder + "/metrics.jsonl";
  if (!path_exists(path)) return {};
  INGOT_TRY(const std::string text, read_file(path));
  std::string kept;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", int64_t{0}) <= step) kept += line + "\n";
  }
  return write_file_atomically(path, kept);
}

}  // namespace ingot::train
