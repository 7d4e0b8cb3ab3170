// Timelines of pipeline schedules: pure functions of a few numbers. To add a schedule: one row in kSchedules.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

// `ahead` forwards, then one forward and one backward in turn; at the end backwards alone.
std::vector<Work> ahead_then_alternate(int ahead, int micro_batches) {
  std::vector<Work> works;
  int forward = 0;
  for (int backward = 0; backward < micro_batches; ++backward) {
    while (forward < std::min(micro_batches, backward + ahead + 1))
      works.push_back({Phase::kForward, 0, forward++});
    works.push_back({Phase::kBackward, 0, backward});
  }
  return works;
}

// One forward, one backward (Narayanan et al. 2019): a stage runs ahead by its distance to the last.
std::vector<Work> one_forward_one_backward(const TimelineInput& input) {
  return ahead_then_alternate(input.stages - input.stage - 1, input.micro_batches);
}

// All forwards first (Huang et al. 2019): every activation of the step is held at once.
std::vector<Work> forwards_first(const TimelineInput& input) {
  return ahead_then_alternate(input.micro_batches, input.micro_batches);
}

// The k-th forward or backward of a stage: chunks change after every `stages` micro-batches, backward from
// the last.
Work interleaved_work(const TimelineInput& input, Phase phase, int k) {
  const int round = input.stages * input.virtual_stages;
  const int chunk = k % round / input.stages;
  return {phase, phase == Phase::kForward ? chunk : input.virtual_stages - 1 - chunk,
          k / round * input.stages + k % input.stages};
}

// Interleaved one forward, one backward (Narayanan et al. 2021): a stage runs ahead by all chunks but the
// last, and by twice its distance to the last stage.
std::vector<Work> interleaved(const TimelineInput& input) {
  const int total = input.micro_batches * input.virtual_stages;
  const int ahead = 2 * (input.stages - input.stage - 1) + (input.virtual_stages - 1) * input.stages;
  std::vector<Work> works = ahead_then_alternate(ahead, total);
  for (Work& work : works) work = interleaved_work(input, work.phase, work.micro_batch);
  return works;
}

// ZB-H1 (Qi et al. 2023): as 1F1B, with weight gradients apart. Stage s holds them back by s micro-batches,
// so that every stage has as many in flight as the first, and makes them up at the end, where 1F1B waits.
std::vector<Work> zero_bubble(const TimelineInput& input) {
  std::vector<Work> works;
  for (const Work& work : one_forward_one_backward(input)) {
    works.push_back(work);
    const int late = work.micro_batch - input.stage;
    if (work.phase == Phase::kBackward && late >= 0) works.push_back({Phase::kWeight, 0, late});
  }
  for (int late = std::max(0, input.micro_batches - input.stage); late < input.micro_batches; ++late)
    works.push_back({Phase::kWeight, 0, late});
  return works;
}

struct Schedule {
  std::string_view name;
  bool weight_phase;
  int least_virtual_stages, most_virtual_stages;
  bool whole_rounds;  // micro-batches must be a multiple of stages
  std::vector<Work> (*works)(const TimelineInput& input);
};

constexpr std::array<Schedule, 4> kSchedules{{
    {"1f1b", false, 1, 1, false, one_forward_one_backward},
    {"interleaved", false, 2, 64, true, interleaved},
    {"zb-h1", true, 1, 1, false, zero_bubble},
    {"gpipe", false, 1, 1, false, forwards_first},
}};

const Schedule* find_schedule(std::string_view name) {
  for (const Schedule& row : kSchedules)
    if (row.name == name) return &row;
  return nullptr;
}

std::string known_schedules() {
  std::string known;
  for (const Schedule& row : kSchedules) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  return known;
}

Result<void> check_rounds(const Layout& layout) {
  const int stages = layout.mesh.size(Axis::kPp), m = layout.micro_batches;
  if (m % stages == 0) return {};
  const int below = m / stages * stages;
  return invalid(
      fmt::format("schedule \"{}\" needs a multiple of parallel.pp, {}, as number of micro-batches; {} are "
                  "asked for, use {}",
                  layout.schedule, stages, m,
                  below > 0 ? fmt::format("{} or {}", below, below + stages) : fmt::format("{}", stages)));
}

}  // namespace

bool has_weight_phase(std::string_view schedule) {
  const Schedule* row = find_schedule(schedule);
  return row != nullptr && row->weight_phase;
}

Result<void> check_schedule(const CompileOptions& options, int stage) {
  const Layout& layout = options.layout;
  const Schedule* row = find_schedule(layout.schedule);
  const int stages = layout.mesh.size(Axis::kPp), chunks = layout.virtual_stages;
  if (row == nullptr) {
    return invalid(fmt::format("parallel.pp_schedule \"{}\" is unknown; known are {}", layout.schedule,
                               known_schedules()));
  }
  if (stage < 0 || stage >= stages)
    return invalid(fmt::format("there is no stage {}: parallel.pp is {}", stage, stages));
  if (layout.micro_batches < 1)
    return invalid(fmt::format("a step of {} micro-batches has no work", layout.micro_batches));
  if (chunks < row->least_virtual_stages || chunks > row->most_virtual_stages) {
    return invalid(
        fmt::format("parallel.virtual_stages is {}; schedule \"{}\" takes {}", chunks, row->name,
                    row->most_virtual_stages == 1
                        ? std::string("1")
                        : fmt::format("{} to {}", row->least_virtual_stages, row->most_virtual_stages)));
  }
  if (chunks > 1 && stages == 1)
    return invalid(
        fmt::format("parallel.virtual_stages is {}, but parallel.pp is 1: there is no other stage", chunks));
  if (options.purpose == Purpose::kTrain && row->whole_rounds) return check_rounds(layout);
  return {};
}

std::vector<Work> timeline(std::string_view schedule, const TimelineInput& input) {
  const Schedule* row = find_schedule(schedule);
  INGOT_CHECK(row != nullptr, "schedule {}", schedule);
  return row->works(input);
}

// Chunks change after every `stages` micro-batches, or what is left of them.
std::vector<Work> forward_timeline(const TimelineInput& input) {
  std::vector<Work> works;
  for (int first = 0; first < input.micro_batches; first += input.stages)
    for (int chunk = 0; chunk < input.virtual_stages; ++chunk)
      for (int mb = first; mb < std::min(first + input.stages, input.micro_batches); ++mb)
        works.push_back({Phase::kForward, chunk, mb});
  return works;
}

}  // namespace ingot::graph
