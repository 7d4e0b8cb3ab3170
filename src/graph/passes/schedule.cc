// Segments, the timeline of their invocations, and the transfers beside it. Sends and receives leave their
// segments here: from now on they are entries of the timeline.

#include <algorithm>
#include <map>

#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

// Outstanding sends of one direction: the next but one waits for the first.
constexpr size_t kOutSlots = 2;

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
      mark_group(draft_.timeline.back());
    }
    if (draft_.finish_segment >= 0) invoke(draft_.finish_segment, 0, true, true);
    for (size_t segment = 0; segment < draft_.segments.size(); ++segment)
      for (size_t crossing = 0; crossing < draft_.segments[segment].crossings.size(); ++crossing)
        add_transfers(static_cast<int>(segment), crossing);
    std::ranges::stable_sort(draft_.transfers, {}, [](const Transfer& transfer) {
      return std::pair(transfer.post, transfer.send ? 1 : 0);
    });
  }

 private:
  // Which of the replica's groups of micro-batches begins or ends here.
  void mark_group(Invocation& invocation) const {
    if (!draft_.sums_by_tree() || draft_.options.purpose != Purpose::kTrain) return;
    const int size = draft_.options.layout.micro_batches / draft_.own_groups();
    const int group = invocation.micro_batch / size, place = invocation.micro_batch % size;
    invocation.first = place == 0;
    invocation.group = place + 1 == size ? group : -1;
  }

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
      if (node.phase != phase) continue;
      Instruction instruction;
      instruction.id = next_id_++;
      instruction.node = static_cast<int>(k);
      const bool crosses = node.op == Op::kSend || node.op == Op::kReceive;
      (crosses ? segment.crossings : segment.instructions).push_back(std::move(instruction));
    }
    // A phase may do nothing but pass on: the gradient of a sum is that of its summands.
    if (segment.instructions.empty() && segment.crossings.empty()) return -1;
    draft_.segments.push_back(std::move(segment));
    return static_cast<int>(draft_.segments.size()) - 1;
  }

  const Node& node_of(const Segment& segment, const Instruction& instruction) const {
    return draft_.chunks[static_cast<size_t>(segment.chunk)].nodes[static_cast<size_t>(instruction.node)];
  }

  // Positions at which something is made that goes the same way, forward or backward.
  std::vector<size_t> sending_positions(Phase phase) const {
    std::vector<size_t> positions;
    for (size_t position = 0; position < draft_.timeline.size(); ++position) {
      const Segment& segment = draft_.segments[static_cast<size_t>(draft_.timeline[position].segment)];
      if (segment.phase == phase && std::ranges::any_of(segment.crossings, [&](const Instruction& crossing) {
            return node_of(segment, crossing).op == Op::kSend;
          }))
        positions.push_back(position);
    }
    return positions;
  }

  void add_transfers(int segment_index, size_t crossing) {
    const Segment& segment = draft_.segments[static_cast<size_t>(segment_index)];
    const Node& node = node_of(segment, segment.crossings[crossing]);
    Transfer transfer;
    transfer.id = segment.crossings[crossing].id;
    transfer.send = node.op == Op::kSend;
    transfer.chunk = segment.chunk;
    transfer.segment = segment_index;
    transfer.crossing = static_cast<int>(crossing);
    transfer.value = transfer.send ? node.inputs[0] : node.outputs[0];
    transfer.peer = node.attributes.peer;
    transfer.tag = node.attributes.tag;
    const std::vector<size_t> sending = sending_positions(segment.phase);
    for (size_t position = 0; position < draft_.timeline.size(); ++position) {
      if (draft_.timeline[position].segment != segment_index) continue;
      const int at = static_cast<int>(position);
      transfer.micro_batch = draft_.timeline[position].micro_batch;
      transfer.post = transfer.send ? at + 1 : std::max(at - 1, 0);
      transfer.wait = at;
      if (transfer.send) {
        const auto own = std::ranges::find(sending, position) - sending.begin();
        const size_t next = static_cast<size_t>(own) + kOutSlots;
        transfer.wait = static_cast<int>(next < sending.size() ? sending[next] : draft_.timeline.size());
      }
      draft_.transfers.push_back(transfer);
    }
  }

  Draft& draft_;
  int next_id_ = 0;
  std::map<std::pair<int, Phase>, int> segment_;
};

}  // namespace

void make_schedule(Draft& draft) {
  const Layout& layout = draft.options.layout;
  const TimelineInput input{layout.mesh.size(Axis::kPp), layout.virtual_stages, layout.micro_batches,
                            draft.stage};
  const bool trains = draft.options.purpose == Purpose::kTrain;
  Scheduling(draft).run(trains ? timeline(layout.schedule, input) : forward_timeline(input));
}

}  // namespace ingot::graph
