// Timelines of pipeline schedules, and the segments that they invoke. To add a schedule: one row in
// kSchedules.

#include <fmt/format.h>

#include <array>
#include <map>

#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

struct ScheduleInput {
  int stages, virtual_stages, micro_batches, stage;
  bool backward;
};

// One forward, one backward (Narayanan et al. 2019): a stage runs ahead by its distance to the last, then
// alternates.
std::vector<Work> one_forward_one_backward(const ScheduleInput& input) {
  std::vector<Work> works;
  const int ahead = std::min(input.micro_batches, input.stages - input.stage - 1);
  int forward = 0, backward = 0;
  while (forward < ahead) works.push_back({Phase::kForward, 0, forward++});
  while (backward < input.micro_batches) {
    if (forward < input.micro_batches) works.push_back({Phase::kForward, 0, forward++});
    works.push_back({Phase::kBackward, 0, backward++});
  }
  return works;
}

std::vector<Work> forward_only(const ScheduleInput& input) {
  std::vector<Work> works;
  for (int micro_batch = 0; micro_batch < input.micro_batches; ++micro_batch)
    for (int chunk = 0; chunk < input.virtual_stages; ++chunk)
      works.push_back({Phase::kForward, chunk, micro_batch});
  return works;
}

struct Schedule {
  std::string_view name;
  bool weight_phase;
  int max_virtual_stages;
  std::vector<Work> (*works)(const ScheduleInput& input);  // null: comes with the distributed part
};

constexpr std::array<Schedule, 4> kSchedules{{
    {"1f1b", false, 1, one_forward_one_backward},
    {"interleaved", false, 64, nullptr},
    {"zb-h1", true, 1, nullptr},
    {"gpipe", false, 1, nullptr},
}};

const Schedule* find_schedule(std::string_view name) {
  for (const Schedule& row : kSchedules)
    if (row.name == name) return &row;
  return nullptr;
}

class Scheduling {
 public:
  explicit Scheduling(Draft& draft) : draft_(draft) {}

  void run(const std::vector<Work>& works) {
    draft_.begin_segment = add_segment(draft_.finish, Phase::kBegin);
    for (int chunk = 0; chunk < draft_.finish; ++chunk)
      for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kWeight})
        if (const int segment = add_segment(chunk, phase); segment >= 0) segment_[{chunk, phase}] = segment;
    draft_.finish_segment = add_segment(draft_.finish, Phase::kFinish);
    std::map<int, int> runs, seen;
    for (const Work& work : works)
      if (const auto found = segment_.find({work.chunk, work.phase}); found != segment_.end())
        ++runs[found->second];
    for (const Work& work : works) {
      const auto found = segment_.find({work.chunk, work.phase});
      if (found == segment_.end()) continue;
      const int count = ++seen[found->second];
      invoke(found->second, work.micro_batch, count == 1, count == runs[found->second]);
    }
    if (draft_.finish_segment >= 0) invoke(draft_.finish_segment, 0, true, true);
  }

 private:
  void invoke(int segment, int micro_batch, bool first, bool last) {
    Invocation invocation;
    invocation.segment = segment;
    invocation.micro_batch = micro_batch;
    invocation.first = first;
    invocation.last = last;
    invocation.slot.fill(-1);
    draft_.timeline.push_back(invocation);
  }

  int add_segment(int chunk, Phase phase) {
    const Graph& graph = draft_.chunks[static_cast<size_t>(chunk)];
    Segment segment;
    segment.chunk = chunk;
    segment.phase = phase;
    for (size_t k = 0; k < graph.nodes.size(); ++k) {
      const Node& node = graph.nodes[k];
      if (node.phase != phase || node.op == Op::kSend || node.op == Op::kReceive) continue;
      Instruction instruction;
      instruction.id = next_id_++;
      instruction.node = static_cast<int>(k);
      segment.instructions.push_back(std::move(instruction));
    }
    if (segment.instructions.empty()) return -1;
    draft_.segments.push_back(std::move(segment));
    return static_cast<int>(draft_.segments.size()) - 1;
  }

  Draft& draft_;
  int next_id_ = 0;
  std::map<std::pair<int, Phase>, int> segment_;
};

}  // namespace

bool has_weight_phase(std::string_view schedule) {
  const Schedule* row = find_schedule(schedule);
  return row != nullptr && row->weight_phase;
}

Result<std::vector<Work>> timeline(std::string_view schedule, int stages, int virtual_stages,
                                   int micro_batches, int stage, bool backward) {
  const Schedule* row = find_schedule(schedule);
  if (row == nullptr) {
    std::string known;
    for (const Schedule& other : kSchedules)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", other.name);
    return invalid(fmt::format("parallel.pp_schedule \"{}\" is unknown; known are {}", schedule, known));
  }
  if (micro_batches < 1) return invalid(fmt::format("a step of {} micro-batches has no work", micro_batches));
  const ScheduleInput input{stages, virtual_stages, micro_batches, stage, backward};
  if (!backward) return forward_only(input);
  if (row->works == nullptr) {
    return invalid(
        fmt::format("parallel.pp_schedule \"{}\" comes with the distributed part; use \"1f1b\"", schedule));
  }
  if (virtual_stages > row->max_virtual_stages) {
    return invalid(fmt::format("parallel.virtual_stages is {}; schedule \"{}\" takes at most {}",
                               virtual_stages, schedule, row->max_virtual_stages));
  }
  return row->works(input);
}

Result<void> make_schedule(Draft& draft) {
  const Layout& layout = draft.options.layout;
  INGOT_TRY(const std::vector<Work> works,
            timeline(layout.schedule, layout.mesh.size(Axis::kPp), layout.virtual_stages,
                     layout.micro_batches, draft.stage, draft.options.purpose == Purpose::kTrain));
  Scheduling(draft).run(works);
  return {};
}

}  // namespace ingot::graph
