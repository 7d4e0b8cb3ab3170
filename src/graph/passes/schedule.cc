// Segments, the timeline of their invocations, and the transfers beside it. Sends and receives leave their
// segments here: from now on they are entries of the timeline.

#include <algorithm>
#include <map>

#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

// Outstanding sends of one direction: the next but one waits for the first.
constexpr size_t kOutSlots = 2;

// A send or receive of a segment, once per micro-batch.
struct Crossing {
  int id = 0;
  int chunk = 0;
  Phase phase = Phase::kForward;
  bool send = false;
  ValueId value = kNoValue;
  int peer = 0, tag = 0;
};

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
    for (const Crossing& crossing : crossings_) add_transfers(crossing);
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
    const size_t before = crossings_.size();
    for (size_t k = 0; k < graph.nodes.size(); ++k) {
      const Node& node = graph.nodes[k];
      if (node.phase != phase) continue;
      const int id = next_id_++;
      if (node.op == Op::kSend || node.op == Op::kReceive) {
        const bool send = node.op == Op::kSend;
        crossings_.push_back({id, chunk, phase, send, send ? node.inputs[0] : node.outputs[0],
                              node.attributes.peer, node.attributes.tag});
        continue;
      }
      Instruction instruction;
      instruction.id = id;
      instruction.node = static_cast<int>(k);
      segment.instructions.push_back(std::move(instruction));
    }
    // A phase may do nothing but pass on: the gradient of a sum is that of its summands.
    if (segment.instructions.empty() && crossings_.size() == before) return -1;
    draft_.segments.push_back(std::move(segment));
    return static_cast<int>(draft_.segments.size()) - 1;
  }

  const Segment& segment_at(size_t position) const {
    return draft_.segments[static_cast<size_t>(draft_.timeline[position].segment)];
  }

  // Positions at which something is made that goes the same way, forward or backward.
  std::vector<size_t> sending_positions(Phase phase) const {
    std::vector<size_t> positions;
    for (size_t position = 0; position < draft_.timeline.size(); ++position) {
      const Segment& segment = segment_at(position);
      if (segment.phase == phase && std::ranges::any_of(crossings_, [&](const Crossing& crossing) {
            return crossing.send && crossing.phase == phase && crossing.chunk == segment.chunk;
          }))
        positions.push_back(position);
    }
    return positions;
  }

  void add_transfers(const Crossing& crossing) {
    const std::vector<size_t> sending = sending_positions(crossing.phase);
    for (size_t position = 0; position < draft_.timeline.size(); ++position) {
      const Segment& segment = segment_at(position);
      if (segment.chunk != crossing.chunk || segment.phase != crossing.phase) continue;
      Transfer transfer;
      transfer.id = crossing.id;
      transfer.send = crossing.send;
      transfer.chunk = crossing.chunk;
      transfer.value = crossing.value;
      transfer.peer = crossing.peer;
      transfer.tag = crossing.tag;
      transfer.micro_batch = draft_.timeline[position].micro_batch;
      transfer.post = static_cast<int>(position) + (crossing.send ? 1 : -1);
      transfer.post = std::max(transfer.post, 0);
      transfer.wait = static_cast<int>(position);
      if (crossing.send) {
        const size_t own = static_cast<size_t>(std::ranges::find(sending, position) - sending.begin());
        const size_t next = own + kOutSlots;
        transfer.wait = static_cast<int>(next < sending.size() ? sending[next] : draft_.timeline.size());
      }
      draft_.transfers.push_back(transfer);
    }
  }

  Draft& draft_;
  int next_id_ = 0;
  std::map<std::pair<int, Phase>, int> segment_;
  std::vector<Crossing> crossings_;
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
