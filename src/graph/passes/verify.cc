// Proves a plan from its instructions and addresses alone: it knows nothing of how waits, lifetimes and slots
// were chosen. Each check ends in a sentence.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

constexpr size_t kWindow = 2;

// Who wrote each byte of an area last.
class Ownership {
 public:
  void write(int64_t begin, int64_t end, int owner) {
    split(begin);
    split(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_[begin] = {end, owner};
  }

  bool owned(int64_t begin, int64_t end, int owner) const {
    auto piece = pieces_.upper_bound(begin);
    if (piece == pieces_.begin()) return false;
    --piece;
    for (int64_t at = begin; at < end; ++piece) {
      if (piece == pieces_.end() || piece->first > at || piece->second.end <= at ||
          piece->second.owner != owner)
        return false;
      at = piece->second.end;
    }
    return true;
  }

 private:
  struct Piece {
    int64_t end = 0;
    int owner = -1;
  };

  void split(int64_t at) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->second.end <= at) return;
    pieces_[at] = piece->second;
    piece->second.end = at;
  }

  std::map<int64_t, Piece> pieces_;
};

// One operand as bytes of an area. `area` tells buffers, slot classes, scratch and staging apart.
struct Bytes {
  int area = 0;
  int64_t begin = 0, end = 0;
  bool overlaps(const Bytes& other) const {
    return area == other.area && begin < other.end && other.begin < end;
  }
};

bool is_slot(Space space) { return static_cast<int>(space) >= kFirstSlotSpace; }
bool is_buffer(Space space) { return space <= Space::kInput; }

struct Running {
  int id = 0;
  Stream stream = Stream::kDp;
  std::vector<Bytes> reads, writes;
  bool local = false;  // touches scratch, staging or slots: must end with its segment
};

class Verification {
 public:
  explicit Verification(const Program& program) : program_(program), code_(*program.code) {}

  Result<void> run() {
    for (const Segment& segment : code_.segments) INGOT_TRY_VOID(check_segment(segment));
    INGOT_TRY_VOID(check_derived());
    INGOT_TRY_VOID(verify_slot_owners(program_));
    INGOT_TRY_VOID(check_slot_layout());
    INGOT_TRY_VOID(check_gradients());
    INGOT_TRY_VOID(check_groups());
    return check_asynchronous();
  }

 private:
  const Graph& graph_of(const Segment& segment) const {
    return code_.chunks[static_cast<size_t>(segment.chunk)];
  }
  const Node& node_of(const Segment& segment, const Instruction& instruction) const {
    return graph_of(segment).nodes[static_cast<size_t>(instruction.node)];
  }
  const Segment& segment_of(const Invocation& invocation) const {
    return code_.segments[static_cast<size_t>(invocation.segment)];
  }

  std::string name(const Segment& segment, const Instruction& instruction) const {
    return fmt::format("{}[{}] #{} {}", name_of(segment.phase), segment.chunk, instruction.id,
                       info(node_of(segment, instruction).op).name);
  }

  static Error wrong(std::string sentence) {
    return invalid("The plan is wrong: " + std::move(sentence) + ".");
  }

  Bytes bytes_of(const Graph& graph, const Operand& operand) const {
    const int area =
        is_buffer(operand.space) ? kSpaceCount + operand.buffer : static_cast<int>(operand.space);
    return {area, operand.offset, operand.offset + reach_of(program_.layout.mesh, graph, operand.value)};
  }

  Bytes workspace_of(const Segment& segment, const Instruction& instruction) const {
    const Target* target = program_.targets[node_of(segment, instruction).target];
    const bool staged = target->space != program_.targets[0]->space;
    return {static_cast<int>(staged ? Space::kStaging : Space::kScratch), instruction.workspace_offset,
            instruction.workspace_offset + instruction.workspace_bytes};
  }

  int64_t area_bytes(const Segment& segment, const Operand& operand) const {
    if (is_buffer(operand.space)) {
      const BufferPlan& buffer = code_.buffers[static_cast<size_t>(operand.buffer)];
      return buffer.micro_batch_elements > 0 ? buffer.micro_batch_bytes() : buffer.bytes();
    }
    if (operand.space == Space::kScratch) return std::min(segment.scratch_bytes, program_.memory.scratch);
    if (operand.space == Space::kStaging) return std::min(segment.staging_bytes, program_.memory.staging);
    return program_.pools[static_cast<size_t>(operand.space) - kFirstSlotSpace].slot_bytes;
  }

  // ---- one segment: bounds, and every read of scratch sees what its value wrote

  Result<void> check_bounds(const Segment& segment, const Instruction& instruction,
                            const Operand& operand) const {
    const Graph& graph = graph_of(segment);
    const Value& value = graph.value(operand.value);
    const Bytes bytes = bytes_of(graph, operand);
    if (is_buffer(operand.space)) {
      if (operand.buffer < 0 || operand.buffer >= static_cast<int>(code_.buffers.size()) ||
          code_.buffers[static_cast<size_t>(operand.buffer)].space != operand.space)
        return wrong(fmt::format("{} takes {} from a {} buffer that is not there", name(segment, instruction),
                                 value.name, name_of(operand.space)));
    }
    if (bytes.begin < 0 || bytes.end > area_bytes(segment, operand))
      return wrong(fmt::format("{} takes {} from bytes {} to {} of {} bytes of {}",
                               name(segment, instruction), value.name, bytes.begin, bytes.end,
                               area_bytes(segment, operand), name_of(operand.space)));
    return {};
  }

  Result<void> check_segment(const Segment& segment) {
    std::map<int, Ownership> areas;  // scratch, staging
    std::vector<When> written_when(graph_of(segment).values.size(), When::kAlways);
    for (const Instruction& instruction : segment.instructions) {
      const Node& node = node_of(segment, instruction);
      if (instruction.inputs.size() != node.inputs.size() ||
          instruction.outputs.size() != node.outputs.size())
        return wrong(name(segment, instruction) + " has other operands than its node");
      for (const Operand& operand : instruction.inputs) {
        INGOT_TRY_VOID(check_bounds(segment, instruction, operand));
        INGOT_TRY_VOID(check_read(segment, instruction, operand, areas, written_when));
      }
      if (instruction.workspace_bytes > 0) {
        const Bytes bytes = workspace_of(segment, instruction);
        const bool staged = bytes.area == static_cast<int>(Space::kStaging);
        if (bytes.begin < 0 || bytes.end > (staged ? segment.staging_bytes : segment.scratch_bytes))
          return wrong(name(segment, instruction) + " has a workspace outside its area");
        for (const Operand& operand : instruction.inputs)
          if (bytes_of(graph_of(segment), operand).overlaps(bytes))
            return wrong(name(segment, instruction) + " has its workspace on its own input");
        areas[bytes.area].write(bytes.begin, bytes.end, -2 - instruction.id);
      }
      for (const Operand& operand : instruction.outputs) {
        INGOT_TRY_VOID(check_bounds(segment, instruction, operand));
        INGOT_TRY_VOID(check_write(segment, instruction, operand));
        const Bytes bytes = bytes_of(graph_of(segment), operand);
        const ValueId root = root_of(graph_of(segment), operand.value).value;
        INGOT_TRY_VOID(check_addition(segment, instruction, operand, areas));
        written_when[static_cast<size_t>(root)] = node.when;
        if (operand.space == Space::kScratch || operand.space == Space::kStaging)
          areas[bytes.area].write(bytes.begin, bytes.end, root);
      }
    }
    return {};
  }

  Result<void> check_read(const Segment& segment, const Instruction& instruction, const Operand& operand,
                          std::map<int, Ownership>& areas, const std::vector<When>& written_when) const {
    if (operand.space != Space::kScratch && operand.space != Space::kStaging) return {};
    const Bytes bytes = bytes_of(graph_of(segment), operand);
    const ValueId root = root_of(graph_of(segment), operand.value).value;
    const std::string& value = graph_of(segment).value(operand.value).name;
    if (!areas[bytes.area].owned(bytes.begin, bytes.end, root))
      return wrong(fmt::format("{} reads {}, whose bytes were not written or were overwritten",
                               name(segment, instruction), value));
    const When written = written_when[static_cast<size_t>(root)];
    if (written != When::kAlways && written != node_of(segment, instruction).when)
      return wrong(fmt::format("{} reads {}, which is not written in every micro-batch",
                               name(segment, instruction), value));
    return {};
  }

  // A gradient in scratch is added to: its bytes must hold something by then.
  Result<void> check_addition(const Segment& segment, const Instruction& instruction, const Operand& output,
                              std::map<int, Ownership>& areas) const {
    const Value& value = graph_of(segment).value(output.value);
    if (value.role != Role::kGradient || output.space != Space::kScratch) return {};
    const Bytes bytes = bytes_of(graph_of(segment), output);
    if (areas[bytes.area].owned(bytes.begin, bytes.end, root_of(graph_of(segment), output.value).value))
      return {};
    return wrong(fmt::format("{} adds to {}, whose bytes were not zeroed or were overwritten",
                             name(segment, instruction), value.name));
  }

  // Outputs of one instruction may share bytes with each other, its inputs or its workspace only where they
  // are one value.
  Result<void> check_write(const Segment& segment, const Instruction& instruction,
                           const Operand& output) const {
    const Graph& graph = graph_of(segment);
    const Bytes bytes = bytes_of(graph, output);
    const ValueId root = root_of(graph, output.value).value;
    const auto clashes = [&](const Operand& other) {
      return root_of(graph, other.value).value != root && !is_buffer(other.space) &&
             bytes.overlaps(bytes_of(graph, other));
    };
    if (std::ranges::any_of(instruction.inputs, clashes) ||
        std::ranges::any_of(instruction.outputs, clashes) ||
        (instruction.workspace_bytes > 0 && bytes.overlaps(workspace_of(segment, instruction))))
      return wrong(fmt::format("{} writes {} over another operand of its own", name(segment, instruction),
                               graph.value(output.value).name));
    return {};
  }

  // ---- derived buffers: written by begin before anything reads them

  Result<void> check_derived() const {
    std::set<int> written;
    const auto check = [&](const Segment& segment) -> Result<void> {
      for (const Instruction& instruction : segment.instructions) {
        for (const Operand& input : instruction.inputs)
          if (input.space == Space::kDerived && !written.contains(input.buffer))
            return wrong(fmt::format("{} reads {}, which begin does not make", name(segment, instruction),
                                     code_.buffers[static_cast<size_t>(input.buffer)].name));
        if (segment.phase == Phase::kBegin)
          for (const Operand& output : instruction.outputs) written.insert(output.buffer);
      }
      return {};
    };
    if (program_.begin_segment >= 0)
      INGOT_TRY_VOID(check(code_.segments[static_cast<size_t>(program_.begin_segment)]));
    for (const Segment& segment : code_.segments)
      if (segment.phase != Phase::kBegin) INGOT_TRY_VOID(check(segment));
    return {};
  }

  // ---- slots

  struct Resident {
    Bytes bytes;
    ValueId root = kNoValue;
  };

  // Values of a chunk never share bytes of a slot, and each is written or received before it is read.
  Result<void> check_slot_layout() const {
    for (int chunk = 0; chunk < static_cast<int>(code_.chunks.size()); ++chunk) {
      std::map<ValueId, Resident> residents;
      for (const Transfer& transfer : program_.transfers)
        if (transfer.chunk == chunk && !transfer.send) add_received(transfer, residents);
      for (const Segment& segment : code_.segments) {
        if (segment.chunk != chunk) continue;
        for (const Instruction& instruction : segment.instructions)
          INGOT_TRY_VOID(check_residents(segment, instruction, residents));
      }
      for (const Transfer& transfer : program_.transfers)
        if (transfer.chunk == chunk) INGOT_TRY_VOID(check_resident(transfer, residents));
      std::vector<Resident> sorted;
      for (const auto& [root, resident] : residents) sorted.push_back(resident);
      std::ranges::sort(sorted, {}, [](const Resident& r) { return std::pair(r.bytes.area, r.bytes.begin); });
      for (size_t i = 1; i < sorted.size(); ++i)
        if (sorted[i].bytes.overlaps(sorted[i - 1].bytes))
          return wrong(fmt::format("{} and {} share bytes of a slot",
                                   code_.chunks[static_cast<size_t>(chunk)].value(sorted[i - 1].root).name,
                                   code_.chunks[static_cast<size_t>(chunk)].value(sorted[i].root).name));
    }
    return {};
  }

  Result<void> check_residents(const Segment& segment, const Instruction& instruction,
                               std::map<ValueId, Resident>& residents) const {
    const Graph& graph = graph_of(segment);
    for (const Operand& input : instruction.inputs) {
      if (!is_slot(input.space)) continue;
      const Root root = root_of(graph, input.value);
      const auto resident = residents.find(root.value);
      if (resident == residents.end())
        return wrong(fmt::format("{} reads {} from a slot before it was written", name(segment, instruction),
                                 graph.value(input.value).name));
      if (resident->second.bytes.area != static_cast<int>(input.space) ||
          resident->second.bytes.begin != input.offset - root.offset)
        return wrong(fmt::format("{} reads {} from another place than where it lies",
                                 name(segment, instruction), graph.value(input.value).name));
    }
    for (const Operand& output : instruction.outputs) {
      if (!is_slot(output.space)) continue;
      const Root root = root_of(graph, output.value);
      const int64_t base = output.offset - root.offset;
      const Bytes bytes{static_cast<int>(output.space), base, base + graph.value(root.value).bytes()};
      const auto [resident, added] = residents.emplace(root.value, Resident{bytes, root.value});
      if (!added && resident->second.bytes.begin != base)
        return wrong(fmt::format("{} writes {} to another place than before", name(segment, instruction),
                                 graph.value(output.value).name));
    }
    return {};
  }

  Resident resident_of(const Transfer& transfer) const {
    const Graph& graph = code_.chunks[static_cast<size_t>(transfer.chunk)];
    const Root root = root_of(graph, transfer.value);
    const int64_t base = transfer.offset - root.offset;
    return {{static_cast<int>(transfer.space), base, base + graph.value(root.value).bytes()}, root.value};
  }

  void add_received(const Transfer& transfer, std::map<ValueId, Resident>& residents) const {
    const Resident received = resident_of(transfer);
    residents.emplace(received.root, received);
  }

  Result<void> check_resident(const Transfer& transfer, const std::map<ValueId, Resident>& residents) const {
    const Resident own = resident_of(transfer);
    const auto found = residents.find(own.root);
    if (found == residents.end())
      return wrong(describe(program_, transfer) + " sends what was not written to a slot");
    if (found->second.bytes.area != own.bytes.area || found->second.bytes.begin != own.bytes.begin)
      return wrong(describe(program_, transfer) + " takes its value from another place than where it lies");
    return {};
  }

  // ---- gradients: overwritten once in the first micro-batch, then added to

  Result<void> check_gradients() const {
    std::set<std::pair<int, int64_t>> written;  // buffer, offset
    std::set<int> visited;
    for (const Invocation& invocation : program_.timeline) {
      if (!visited.insert(invocation.segment).second) continue;
      const Segment& segment = segment_of(invocation);
      for (const Instruction& instruction : segment.instructions) {
        const Node& node = node_of(segment, instruction);
        for (const Operand& output : instruction.outputs) {
          if (graph_of(segment).value(output.value).role != Role::kGradient || !is_buffer(output.space))
            continue;
          const bool fresh = written.insert({output.buffer, output.offset}).second;
          const bool overwrites = node.zero_first || node.op == Op::kZero;
          if (fresh != overwrites)
            return wrong(fmt::format("{} {} {}", name(segment, instruction),
                                     fresh ? "adds to a gradient left from the step before:"
                                           : "overwrites a gradient of this step:",
                                     graph_of(segment).value(output.value).name));
        }
      }
    }
    return {};
  }

  // ---- groups of micro-batches: what one adds to a gradient is taken up the tree before the next adds to it

  Result<void> check_groups() const {
    const Layout& layout = program_.layout;
    if (layout.determinism_groups == 0 || program_.purpose != Purpose::kTrain) return {};
    const int groups = layout.determinism_groups / layout.mesh.group_size(kDpMask);
    std::map<int, int> open;  // by buffer: the group whose sum it holds
    for (const Invocation& invocation : program_.timeline) {
      const Segment& segment = segment_of(invocation);
      const int group = invocation.micro_batch / (layout.micro_batches / groups);
      for (const Instruction& instruction : segment.instructions) {
        const Node& node = node_of(segment, instruction);
        if (!runs(node, invocation)) continue;
        if (node.when == When::kGroup)
          for (const Operand& input : instruction.inputs) open.erase(input.buffer);
        for (const Operand& output : instruction.outputs) {
          if (graph_of(segment).value(output.value).role != Role::kGradient) continue;
          if (open.emplace(output.buffer, group).first->second != group)
            return wrong(fmt::format("{} of group {} adds to {} before the sum of group {} was taken from it",
                                     name(segment, instruction), group,
                                     graph_of(segment).value(output.value).name, open.at(output.buffer)));
        }
      }
    }
    return {};
  }

  // ---- asynchronous instructions

  Result<void> check_asynchronous() const {
    std::vector<Running> running;
    std::set<std::tuple<int, bool, bool, int>> proved;
    Invocation begin;
    begin.segment = program_.begin_segment;
    if (begin.segment >= 0) INGOT_TRY_VOID(walk(begin, running));
    for (const Invocation& invocation : program_.timeline) {
      const bool clean = running.empty();
      if (clean && proved.contains({invocation.segment, invocation.first, invocation.last, invocation.group}))
        continue;
      INGOT_TRY_VOID(walk(invocation, running));
      if (clean) proved.insert({invocation.segment, invocation.first, invocation.last, invocation.group});
    }
    if (!running.empty()) return wrong(fmt::format("#{} still runs when the step ends", running.front().id));
    return {};
  }

  // A stream works in order: waiting for one is waiting for all before it.
  static void finish(std::vector<Running>& running, int id) {
    const auto found = std::ranges::find(running, id, &Running::id);
    if (found == running.end()) return;
    const Stream stream = found->stream;
    bool passed = false;
    std::erase_if(running, [&](const Running& other) {
      const bool done = !passed && other.stream == stream;
      if (other.id == id) passed = true;
      return done;
    });
  }

  Result<void> walk(const Invocation& invocation, std::vector<Running>& running) const {
    const Segment& segment = segment_of(invocation);
    for (const Instruction& instruction : segment.instructions) {
      const Node& node = node_of(segment, instruction);
      if (!runs(node, invocation)) continue;
      for (const int id : instruction.waits) finish(running, id);
      if (running.empty() && !is_asynchronous(node)) continue;
      Running self{instruction.id, node.stream, {}, {}, false};
      describe_bytes(segment, instruction, self);
      size_t outstanding = 0;
      for (const Running& other : running) {
        const bool same = is_asynchronous(node) && other.stream == node.stream;
        if (same) ++outstanding;
        if (same && node.op != Op::kRingShift) continue;  // which sets off when it is posted
        if (touches(self.writes, other.reads) || touches(self.writes, other.writes) ||
            touches(self.reads, other.writes))
          return wrong(fmt::format("{} touches bytes of #{}, which may still be running",
                                   name(segment, instruction), other.id));
      }
      if (!is_asynchronous(node)) continue;
      if (outstanding >= kWindow)
        return wrong(name(segment, instruction) + " is the third outstanding on its stream");
      running.push_back(std::move(self));
    }
    for (const int id : segment.joins) finish(running, id);
    for (const Running& other : running)
      if (other.local)
        return wrong(fmt::format("#{} may still touch scratch or slots after {}[{}]", other.id,
                                 name_of(segment.phase), segment.chunk));
    return {};
  }

  void describe_bytes(const Segment& segment, const Instruction& instruction, Running& self) const {
    const Graph& graph = graph_of(segment);
    for (const Operand& operand : instruction.inputs) self.reads.push_back(bytes_of(graph, operand));
    for (const Operand& operand : instruction.outputs) self.writes.push_back(bytes_of(graph, operand));
    if (instruction.workspace_bytes > 0) self.writes.push_back(workspace_of(segment, instruction));
    const auto local = [](const Bytes& bytes) { return bytes.area < kSpaceCount; };
    self.local = std::ranges::any_of(self.reads, local) || std::ranges::any_of(self.writes, local);
  }

  static bool touches(const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
    return std::ranges::any_of(a, [&](const Bytes& x) {
      return std::ranges::any_of(b, [&](const Bytes& y) { return x.overlaps(y); });
    });
  }

  const Program& program_;
  const StageCode& code_;
};

}  // namespace

Result<void> verify(const Program& program) { return Verification(program).run(); }

}  // namespace ingot::graph
