#include <fmt/format.h>

#include <array>

#include "spec/config.h"
#include "spec/fields.h"

namespace ingot::spec {
namespace {

struct Row {
  std::string_view key;
  bool (*asked)(const RunSpec&);
  std::string_view instead;
};

// A row goes when its key works.
constexpr auto kRows = std::to_array<Row>({
    {"run.device", [](const RunSpec& s) { return s.run.device == DeviceKind::kCuda; }, "use cpu"},
    {"run.precision",
     [](const RunSpec& s) {
       return s.run.precision == Precision::kFp16 || s.run.precision == Precision::kFp8;
     },
     "use bf16 or fp32"},
    {"run.residual_dtype", [](const RunSpec& s) { return s.run.residual_dtype.has_value(); }, "leave it out"},
    {"run.threads_per_rank", [](const RunSpec& s) { return s.run.threads_per_rank.has_value(); },
     "use run.threads"},
    {"data.mixture", [](const RunSpec& s) { return !s.data.mixture.empty(); },
     "list the paths in data.train"},
    {"data.on_corrupt", [](const RunSpec& s) { return s.data.on_corrupt != OnCorrupt::kStop; },
     "build the damaged shard again"},
    {"train.max_cost", [](const RunSpec& s) { return s.train.max_cost.has_value(); }, "use train.max_time"},
    {"train.max_kwh", [](const RunSpec& s) { return s.train.max_kwh.has_value(); }, "use train.max_time"},
    {"train.deadline", [](const RunSpec& s) { return !s.train.deadline.empty(); }, "use train.max_time"},
    {"optimizer.state_dtype", [](const RunSpec& s) { return s.optimizer.state_dtype != Precision::kFp32; },
     "use fp32"},
    {"optimizer.ema_decay", [](const RunSpec& s) { return s.optimizer.ema_decay.has_value(); },
     "leave it out"},
    {"optimizer.offload", [](const RunSpec& s) { return s.optimizer.offload; }, "leave it out"},
    {"parallel.auto", [](const RunSpec& s) { return s.parallel.automatic; }, "leave it out"},
    {"parallel.ep", [](const RunSpec& s) { return s.parallel.ep > 1; }, "use 1"},
    {"parallel.order", [](const RunSpec& s) { return !s.parallel.order.empty(); }, "leave it out"},
    {"parallel.cp_mode", [](const RunSpec& s) { return s.parallel.cp_mode == ContextMode::kUlysses; },
     "use ring or all_gather"},
    {"parallel.recompute", [](const RunSpec& s) { return s.parallel.recompute == Recompute::kAuto; },
     "use none, selective or full"},
    {"parallel.grad_reduce_dtype",
     [](const RunSpec& s) { return s.parallel.grad_reduce_dtype != Precision::kFp32; }, "use fp32"},
    {"checkpoint.save_interval", [](const RunSpec& s) { return !s.checkpoint.save_interval; },
     "give the steps"},
    {"checkpoint.replicas", [](const RunSpec& s) { return s.checkpoint.replicas > 0; }, "use 0"},
    {"observe.tensorboard", [](const RunSpec& s) { return s.observe.tensorboard; }, "read metrics.jsonl"},
    {"observe.prometheus_port", [](const RunSpec& s) { return s.observe.prometheus_port.has_value(); },
     "read metrics.jsonl"},
});

}  // namespace

std::string_view not_yet_instead(std::string_view key) {
  for (const Row& row : kRows) {
    if (row.key == key) return row.instead;
  }
  return "";
}

std::vector<std::string> not_yet(const RunSpec& given) {
  RunSpec spec = given;
  const std::vector<BoundField> fields = bind_fields(&spec);
  std::vector<std::string> sentences;
  for (const Row& row : kRows) {
    if (!row.asked(spec)) continue;
    for (const BoundField& field : fields) {
      if (field.key() != row.key) continue;
      sentences.push_back(
          fmt::format("{} = {} is not in this version yet; {}", row.key, field.write(), row.instead));
    }
  }
  return sentences;
}

}  // namespace ingot::spec
