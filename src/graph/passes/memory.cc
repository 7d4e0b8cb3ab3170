// Addresses: slots for values that outlive their segment, scratch for the rest. Lifetimes follow
// Instruction::waits and Segment::joins; the verifier (verify.cc) proves the outcome without sharing a line
// with this file.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "graph/passes/draft.h"
#include "graph/passes/pack_intervals.h"

namespace ingot::graph {
namespace {

constexpr int kNever = -1;

// Where a root value is first made and last touched: phase, and index of the instruction in that phase's
// segment.
struct Lifetime {
  int born_segment = kNever, born = kNever;
  int last_segment = kNever, last = kNever;
};

// What a chunk keeps in slots of one class, and the phases of its instructions that touch them.
struct ClassUse {
  int64_t bytes = 0;
  Phase first = Phase::kFinish, last = Phase::kBegin;
};

class MemoryPlanning {
 public:
  explicit MemoryPlanning(Draft& draft) : draft_(draft) {}

  void run() {
    for (size_t chunk = 0; chunk < draft_.chunks.size(); ++chunk) plan_chunk(static_cast<int>(chunk));
    for (const auto& uses : uses_)
      for (size_t c = 0; c < kSlotClasses; ++c)
        draft_.pools[c].slot_bytes = std::max(draft_.pools[c].slot_bytes, uses[c].bytes);
    colour_slots();
    add_totals();
  }

 private:
  Graph& graph_of(int chunk) { return draft_.chunks[static_cast<size_t>(chunk)]; }
  int64_t aligned(int64_t bytes) const {
    return tensor::align_up(std::max<int64_t>(bytes, 1), draft_.options.targets[0]->alignment);
  }

  void plan_chunk(int chunk) {
    Graph& graph = graph_of(chunk);
    lifetimes_.assign(graph.values.size(), {});
    spaces_.assign(graph.values.size(), Space::kScratch);
    offsets_.assign(graph.values.size(), 0);
    for (size_t s = 0; s < draft_.segments.size(); ++s)
      if (draft_.segments[s].chunk == chunk) find_lifetimes(graph, static_cast<int>(s));
    choose_spaces(chunk);
    for (Segment& segment : draft_.segments)
      if (segment.chunk == chunk) plan_segment(graph, segment);
    for (Segment& segment : draft_.segments)
      if (segment.chunk == chunk) write_operands(graph, segment);
    place_transfers(chunk);
  }

  void find_lifetimes(const Graph& graph, int s) {
    const Segment& segment = draft_.segments[static_cast<size_t>(s)];
    const int count = static_cast<int>(segment.instructions.size());
    const std::vector<int> ends = completion_of(graph, segment);
    for (int k = 0; k < count; ++k) {
      const Node& node = graph.nodes[static_cast<size_t>(segment.instructions[static_cast<size_t>(k)].node)];
      for (const std::vector<ValueId>* operands : {&node.inputs, &node.outputs})
        for (const ValueId id : *operands) {
          Lifetime& life = lifetimes_[static_cast<size_t>(root_of(graph, id).value)];
          if (life.born == kNever) life = {s, k, s, k};
          if (life.last_segment != s) life.last = k;
          life.last_segment = s;
          life.last = std::max(life.last, ends[static_cast<size_t>(k)]);
        }
    }
  }

  // Per instruction: the last instruction during which it may still run. Its own index unless it is
  // asynchronous.
  static std::vector<int> completion_of(const Graph& graph, const Segment& segment) {
    const int count = static_cast<int>(segment.instructions.size());
    const auto node_at = [&](int k) -> const Node& {
      return graph.nodes[static_cast<size_t>(segment.instructions[static_cast<size_t>(k)].node)];
    };
    std::vector<int> ends(static_cast<size_t>(count));
    for (int k = 0; k < count; ++k)
      ends[static_cast<size_t>(k)] = is_asynchronous(node_at(k)) ? count - 1 : k;
    for (int k = count - 1; k >= 0; --k)
      for (const int id : segment.instructions[static_cast<size_t>(k)].waits) {
        const auto found = std::ranges::lower_bound(segment.instructions, id, {}, &Instruction::id);
        if (found == segment.instructions.end() || found->id != id) continue;  // of another segment
        const int index = static_cast<int>(found - segment.instructions.begin());
        const Stream stream = node_at(index).stream;
        // A wait ends what is awaited only in micro-batches in which both its ends run.
        const When when = node_at(k).when, awaited = node_at(index).when;
        for (int j = index; j >= 0; --j)
          if (node_at(j).stream == stream && runs_whenever(when, node_at(j).when) &&
              runs_whenever(awaited, node_at(j).when))
            ends[static_cast<size_t>(j)] = std::min(ends[static_cast<size_t>(j)], k - 1);
      }
    return ends;
  }

  Phase phase_of(int segment) const { return draft_.segments[static_cast<size_t>(segment)].phase; }

  // Values that cross between stages lie in slots of their own, in those of what was received where they are
  // passed on; slots hold what outlives its segment; scratch the rest.
  void choose_spaces(int chunk) {
    const Graph& graph = draft_.chunks[static_cast<size_t>(chunk)];
    const std::vector<Space> boundary = boundary_spaces(graph);
    std::array<ClassUse, kSlotClasses> uses;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const Value& value = graph.values[v];
      const Lifetime& life = lifetimes_[v];
      const bool received = is_in(boundary[v]);
      if ((life.born == kNever && !received) || value.buffer >= 0 || value.base != kNoValue) continue;
      Space space = boundary[v];
      if (space == Space::kScratch && value.space != draft_.options.targets[0]->space)
        space = Space::kStaging;
      if (life.born_segment != life.last_segment && !received && space != Space::kStaging) {
        space = phase_of(life.born_segment) == Phase::kBackward ? Space::kBackwardWeight
                : phase_of(life.last_segment) == Phase::kWeight ? Space::kForwardWeight
                                                                : Space::kForwardBackward;
      }
      spaces_[v] = space;
      if (static_cast<int>(space) < kFirstSlotSpace) continue;
      ClassUse& use = uses[slot_class(space)];
      offsets_[v] = use.bytes;
      use.bytes += aligned(value.bytes());
      if (life.born == kNever) continue;
      use.first = std::min(use.first, phase_of(life.born_segment));
      use.last = std::max(use.last, phase_of(life.last_segment));
    }
    uses_.push_back(uses);
  }

  static size_t slot_class(Space space) { return static_cast<size_t>(space) - kFirstSlotSpace; }
  static bool is_in(Space space) { return space == Space::kInForward || space == Space::kInBackward; }

  static std::vector<Space> boundary_spaces(const Graph& graph) {
    std::vector<Space> spaces(graph.values.size(), Space::kScratch);
    for (const Node& node : graph.nodes) {
      if (node.op != Op::kSend && node.op != Op::kReceive) continue;
      const bool forward = node.phase == Phase::kForward;
      if (node.op == Op::kReceive) {
        spaces[static_cast<size_t>(node.outputs[0])] = forward ? Space::kInForward : Space::kInBackward;
        continue;
      }
      Space& space = spaces[static_cast<size_t>(root_of(graph, node.inputs[0]).value)];
      if (!is_in(space)) space = forward ? Space::kOutForward : Space::kOutBackward;
    }
    return spaces;
  }

  // Scratch, staging and workspaces of one segment: intervals over its instructions, packed.
  void plan_segment(const Graph& graph, Segment& segment) {
    std::vector<Interval> scratch, staging;
    std::vector<ValueId> scratch_values, staging_values;
    std::vector<bool> seen(graph.values.size(), false);
    for (size_t k = 0; k < segment.instructions.size(); ++k) {
      const Node& node = graph.nodes[static_cast<size_t>(segment.instructions[k].node)];
      for (const std::vector<ValueId>* operands : {&node.inputs, &node.outputs})
        for (const ValueId id : *operands) {
          const ValueId root = root_of(graph, id).value;
          const auto v = static_cast<size_t>(root);
          if (seen[v] || graph.value(root).buffer >= 0 || static_cast<int>(spaces_[v]) >= kFirstSlotSpace)
            continue;
          seen[v] = true;
          const bool staged = spaces_[v] == Space::kStaging;
          (staged ? staging : scratch)
              .push_back({lifetimes_[v].born, lifetimes_[v].last, aligned(graph.value(root).bytes()), 0});
          (staged ? staging_values : scratch_values).push_back(root);
        }
    }
    add_workspaces(graph, segment, scratch, staging);
    segment.scratch_bytes = pack_intervals(scratch);
    segment.staging_bytes = pack_intervals(staging);
    segment.live_bytes = greatest_load(scratch);
    for (size_t i = 0; i < scratch_values.size(); ++i)
      offsets_[static_cast<size_t>(scratch_values[i])] = scratch[i].offset;
    for (size_t i = 0; i < staging_values.size(); ++i)
      offsets_[static_cast<size_t>(staging_values[i])] = staging[i].offset;
    size_t next_scratch = scratch_values.size(), next_staging = staging_values.size();
    for (Instruction& instruction : segment.instructions) {
      if (instruction.workspace_bytes == 0) continue;
      const bool second = graph.nodes[static_cast<size_t>(instruction.node)].target == 1 && two_memories();
      instruction.workspace_offset = second ? staging[next_staging++].offset : scratch[next_scratch++].offset;
    }
  }

  bool two_memories() const {
    return draft_.options.targets.size() > 1 &&
           draft_.options.targets[1]->space != draft_.options.targets[0]->space;
  }

  void add_workspaces(const Graph& graph, Segment& segment, std::vector<Interval>& scratch,
                      std::vector<Interval>& staging) {
    const std::vector<int> ends = completion_of(graph, segment);
    for (size_t k = 0; k < segment.instructions.size(); ++k) {
      const Node& node = graph.nodes[static_cast<size_t>(segment.instructions[k].node)];
      const Target& target = *draft_.options.targets[node.target];
      if (target.workspace_bytes == nullptr) continue;
      const int64_t bytes = target.workspace_bytes(graph, node, draft_.options.threads);
      segment.instructions[k].workspace_bytes = bytes;
      if (bytes == 0) continue;
      const bool second = node.target == 1 && two_memories();
      (second ? staging : scratch).push_back({static_cast<int>(k), ends[k], aligned(bytes), 0});
    }
  }

  Operand operand_of(const Graph& graph, ValueId id) const {
    const Root root = root_of(graph, id);
    const Value& base = graph.value(root.value);
    Operand operand;
    operand.value = id;
    if (base.buffer >= 0) {
      operand.space = draft_.buffers[static_cast<size_t>(base.buffer)].space;
      operand.buffer = base.buffer;
      operand.offset = base.buffer_offset * tensor::size_of(base.dtype) + root.offset;
    } else {
      operand.space = spaces_[static_cast<size_t>(root.value)];
      operand.offset = offsets_[static_cast<size_t>(root.value)] + root.offset;
    }
    return operand;
  }

  void write_operands(const Graph& graph, Segment& segment) {
    for (std::vector<Instruction>* list : {&segment.instructions, &segment.crossings})
      for (Instruction& instruction : *list) {
        const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
        instruction.inputs.reserve(node.inputs.size());
        instruction.outputs.reserve(node.outputs.size());
        for (const ValueId id : node.inputs) instruction.inputs.push_back(operand_of(graph, id));
        for (const ValueId id : node.outputs) instruction.outputs.push_back(operand_of(graph, id));
      }
  }

  void place_transfers(int chunk) {
    const Graph& graph = draft_.chunks[static_cast<size_t>(chunk)];
    for (Transfer& transfer : draft_.transfers) {
      if (transfer.chunk != chunk) continue;
      const Root root = root_of(graph, transfer.value);
      transfer.space = spaces_[static_cast<size_t>(root.value)];
      transfer.offset = offsets_[static_cast<size_t>(root.value)] + root.offset;
      INGOT_CHECK(static_cast<int>(transfer.space) >= kFirstSlotSpace, "{} crosses between stages from {}",
                  graph.value(transfer.value).name, name_of(transfer.space));
    }
  }

  struct SlotInterval {
    int begin = 0, end = 0;  // positions in the timeline, both inclusive
    int slot = -1;
  };
  using Owner = std::pair<int, int>;  // chunk, micro-batch

  // The positions during which each owner needs its slot of one class: from the phase that fills it, or the
  // post of what is received into it, to the last that reads it or the end of its sends.
  std::map<Owner, SlotInterval> slot_intervals(size_t slot_class) const {
    std::map<Owner, SlotInterval> found;
    const auto extend = [&](const Owner& owner, int begin, int end) {
      const auto [interval, added] = found.emplace(owner, SlotInterval{begin, end});
      interval->second.begin = std::min(interval->second.begin, begin);
      interval->second.end = std::max(interval->second.end, end);
    };
    for (size_t position = 0; position < draft_.timeline.size(); ++position) {
      const Invocation& invocation = draft_.timeline[position];
      const Segment& segment = draft_.segments[static_cast<size_t>(invocation.segment)];
      const ClassUse& use = uses_[static_cast<size_t>(segment.chunk)][slot_class];
      if (use.bytes == 0 || segment.phase < use.first || segment.phase > use.last) continue;
      const int at = static_cast<int>(position);
      extend({segment.chunk, invocation.micro_batch}, at, at);
    }
    for (const Transfer& transfer : draft_.transfers) {
      if (static_cast<size_t>(transfer.space) - kFirstSlotSpace != slot_class) continue;
      // At the position where a send from a received value ends, the slot cannot be received into yet.
      const bool free_at_wait = transfer.send && !is_in(transfer.space);
      extend({transfer.chunk, transfer.micro_batch}, transfer.send ? transfer.post - 1 : transfer.post,
             transfer.wait - (free_at_wait ? 1 : 0));
    }
    return found;
  }

  void colour_slots() {
    for (size_t c = 0; c < kSlotClasses; ++c) {
      std::map<Owner, SlotInterval> intervals = slot_intervals(c);
      std::vector<SlotInterval*> in_order;
      for (auto& [owner, interval] : intervals) in_order.push_back(&interval);
      std::ranges::stable_sort(in_order, {}, [](const SlotInterval* interval) { return interval->begin; });
      std::vector<int> busy_until;
      for (SlotInterval* interval : in_order) {
        const auto free =
            std::ranges::find_if(busy_until, [&](int until) { return until < interval->begin; });
        interval->slot = static_cast<int>(free - busy_until.begin());
        if (free == busy_until.end()) busy_until.push_back(0);
        busy_until[static_cast<size_t>(interval->slot)] = interval->end;
      }
      assign_slots(c, intervals);
      draft_.pools[c].slots = static_cast<int>(busy_until.size());
    }
  }

  void assign_slots(size_t slot_class, const std::map<Owner, SlotInterval>& intervals) {
    for (size_t position = 0; position < draft_.timeline.size(); ++position) {
      Invocation& invocation = draft_.timeline[position];
      const int chunk = draft_.segments[static_cast<size_t>(invocation.segment)].chunk;
      const auto found = intervals.find({chunk, invocation.micro_batch});
      const int at = static_cast<int>(position);
      if (found == intervals.end() || at < found->second.begin || at > found->second.end) continue;
      invocation.slot[slot_class] = static_cast<int16_t>(found->second.slot);
    }
    for (Transfer& transfer : draft_.transfers)
      if (static_cast<size_t>(transfer.space) - kFirstSlotSpace == slot_class)
        transfer.slot = intervals.at({transfer.chunk, transfer.micro_batch}).slot;
  }

  void add_totals() {
    MemoryTotals& totals = draft_.memory;
    for (const BufferPlan& buffer : draft_.buffers) {
      const int64_t bytes = aligned(buffer.bytes());
      switch (buffer.space) {
        case Space::kState:
          totals.state += bytes;
          break;
        case Space::kDerived:
          totals.derived += bytes;
          break;
        case Space::kStep:
          totals.step += bytes;
          break;
        case Space::kInput:
          totals.input += kInputSides * bytes;
          break;
        default:
          INGOT_CHECK(false, "buffer {} lies in {}", buffer.name, name_of(buffer.space));
      }
    }
    for (const Pool& pool : draft_.pools) totals.slots += pool.slot_bytes * pool.slots;
    for (const Segment& segment : draft_.segments) {
      totals.scratch = std::max(totals.scratch, segment.scratch_bytes);
      totals.staging = std::max(totals.staging, segment.staging_bytes);
    }
  }

  Draft& draft_;
  std::vector<Lifetime> lifetimes_;
  std::vector<Space> spaces_;
  std::vector<int64_t> offsets_;
  std::vector<std::array<ClassUse, kSlotClasses>> uses_;  // per chunk
};

}  // namespace

void plan_memory(Draft& draft) { MemoryPlanning(draft).run(); }

}  // namespace ingot::graph
