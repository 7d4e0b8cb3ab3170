#include <fmt/format.h>

#include <algorithm>

#include "runtime/bound.h"

namespace ingot::runtime {
namespace {

using graph::Op;
using graph::Space;

size_t index(int i) { return static_cast<size_t>(i); }
size_t slot_class(Space space) {
  return static_cast<size_t>(space) - static_cast<size_t>(graph::kFirstSlotSpace);
}

backend::Backend& backend_of(std::span<backend::Backend* const> backends, tensor::MemorySpace space) {
  for (backend::Backend* backend : backends)
    if (backend->target().space == space) return *backend;
  return *backends.front();
}

std::string subject(const graph::StageCode& code, const graph::Graph& graph, const graph::Node& node) {
  if (node.stream != graph::Stream::kDp) return graph.value(node.outputs.front()).name;
  const int buffer = graph.value(node.inputs.front()).buffer;
  const bool state = buffer >= 0 && code.buffers[index(buffer)].space == Space::kState;
  const char* what = state ? "parameters" : "gradients";
  if (node.layer < 0) return fmt::format("{} of the embedding", what);
  if (node.layer >= graph.layers) return fmt::format("{} of the head", what);
  return fmt::format("{} of layer {}", what, node.layer);
}

class Binder {
 public:
  Binder(const graph::Program& program, const Memory& memory, std::span<backend::Backend* const> backends,
         comm::Transport& transport)
      : program_(program),
        code_(*program.code),
        memory_(memory),
        backends_(backends),
        transport_(transport) {}

  Result<BoundProgram> run() {
    INGOT_TRY_VOID(bind_transfers());
    for (const graph::Segment& segment : code_.segments) {
      BoundSegment bound;
      bound.segment = &segment;
      const graph::Graph& graph = code_.chunks[index(segment.chunk)];
      for (const graph::Instruction& instruction : segment.instructions) {
        auto result = bind(graph, instruction);
        if (!result) {
          graph::Invocation invocation{};
          invocation.segment = static_cast<int>(&segment - code_.segments.data());
          return std::move(result).take_error().context(graph::describe(program_, invocation, instruction));
        }
        bound.instructions.push_back(std::move(*result));
      }
      bound_program_.segments.push_back(std::move(bound));
    }
    bound_program_.views.resize(bound_program_.operands.size());
    fill_views();
    return std::move(bound_program_);
  }

 private:
  // Neighbour stages talk over a group along the pipeline, made before all others.
  Result<void> bind_transfers() {
    if (program_.transfers.empty()) return {};
    const graph::AxisMask pipeline = mask_of(graph::Axis::kPp);
    INGOT_TRY(const auto group, group_of(graph::Stream::kTransfer, pipeline));
    for (const graph::Transfer& transfer : program_.transfers) {
      const graph::Value& value = code_.chunks[index(transfer.chunk)].value(transfer.value);
      const size_t c = slot_class(transfer.space);
      BoundTransfer bound;
      bound.transfer = &transfer;
      bound.view = {memory_.slots[c].data() + program_.pools[c].slot_bytes * transfer.slot + transfer.offset,
                    value.dtype, value.stored};
      bound.group = group;
      bound.peer = (program_.stage + transfer.peer + group->size()) % group->size();
      bound.what = fmt::format("{}, mb {}", value.name, transfer.micro_batch);
      bound_program_.transfers.push_back(std::move(bound));
    }
    return {};
  }

  Result<comm::Communicator*> group_of(graph::Stream stream, graph::AxisMask axes) {
    std::unique_ptr<comm::Communicator>& group = bound_program_.groups[{stream, axes}];
    if (!group) {
      INGOT_TRY(group, transport_.group(program_.layout.mesh, axes));
    }
    return group.get();
  }

  Result<BoundInstruction> bind(const graph::Graph& graph, const graph::Instruction& instruction) {
    const graph::Node& node = graph.nodes[index(instruction.node)];
    BoundInstruction bound;
    bound.instruction = &instruction;
    bound.node = &node;
    bound.first = bound_program_.operands.size();
    bound.inputs = instruction.inputs.size();
    bound.outputs = instruction.outputs.size();
    bound.asynchronous = node.stream != graph::Stream::kCompute;
    bound.overwrites = node.zero_first;
    for (const graph::Operand& operand : instruction.inputs) add_operand(graph, operand);
    for (const graph::Operand& operand : instruction.outputs) add_operand(graph, operand);
    INGOT_CHECK(node.target < backends_.size(), "instruction #{} runs on target {} of {}", instruction.id,
                node.target, backends_.size());
    const graph::AxisMask group = node.attributes.group;
    if (group != 0) bound.group_index = program_.layout.mesh.index(transport_.rank(), group);
    if (graph::info(node.op).collective && node.op != Op::kSlice && node.op != Op::kBroadcastGrad) {
      INGOT_TRY_VOID(bind_collective(graph, node, bound));
      return bound;
    }
    INGOT_TRY_VOID(check_spaces(graph, node));
    INGOT_TRY(bound.kernel, backends_[node.target]->bind(graph, node));
    const tensor::Buffer& area = node.target == 0 ? memory_.scratch : memory_.staging;
    bound.workspace = {area.data() + instruction.workspace_offset,
                       static_cast<size_t>(instruction.workspace_bytes)};
    if (instruction.workspace_bytes == 0) bound.workspace = {};
    return bound;
  }

  Result<void> bind_collective(const graph::Graph& graph, const graph::Node& node, BoundInstruction& bound) {
    switch (node.op) {
      case Op::kAllReduce:
        bound.action = Action::kAllReduce;
        break;
      case Op::kAllGather:
        bound.action = Action::kAllGather;
        break;
      case Op::kReduceScatter:
        bound.action = Action::kReduceScatter;
        break;
      case Op::kAllToAll:
        bound.action = Action::kAllToAll;
        break;
      case Op::kRingShift:
        bound.action = Action::kRingShift;
        break;
      default:
        INGOT_CHECK(false, "{} in a segment", graph::info(node.op).name);
    }
    bound.what = subject(code_, graph, node);
    INGOT_TRY(const auto group, group_of(node.stream, node.attributes.group));
    INGOT_CHECK(group->size() == node.attributes.group_size, "the group has {} members, the program says {}",
                group->size(), node.attributes.group_size);
    bound.group = group;
    return {};
  }

  // A backend reads and writes its own memory only; copies go between two.
  Result<void> check_spaces(const graph::Graph& graph, const graph::Node& node) const {
    if (node.op == Op::kCopy) return {};
    const tensor::MemorySpace own = backends_[node.target]->target().space;
    for (const std::vector<graph::ValueId>* operands : {&node.inputs, &node.outputs}) {
      for (const graph::ValueId id : *operands) {
        const graph::Value& value = graph.value(id);
        if (value.space == own) continue;
        return invalid(fmt::format("{} lies in memory space {}, backend {} works in {}", value.name,
                                   value.space.id, backends_[node.target]->target().name, own.id));
      }
    }
    return {};
  }

  void add_operand(const graph::Graph& graph, const graph::Operand& operand) {
    BoundOperand bound;
    auto offset = static_cast<uintptr_t>(operand.offset);
    for (graph::ValueId id = operand.value; id != graph::kNoValue; id = graph.value(id).base) {
      const graph::Value& held = graph.value(id);
      offset += static_cast<uintptr_t>(program_.layout.mesh.index(transport_.rank(), held.shard_group) *
                                       held.bytes());
    }
    switch (operand.space) {
      case Space::kState:
      case Space::kDerived:
      case Space::kStep:
        bound.offset = address(memory_.buffers[index(operand.buffer)]) + offset;
        break;
      case Space::kInput:
        bound.base = kInputBase;
        bound.offset = static_cast<uintptr_t>(memory_.input_offset[index(operand.buffer)]) + offset;
        bound.micro_batch_bytes = code_.buffers[index(operand.buffer)].micro_batch_bytes();
        break;
      case Space::kScratch:
        bound.offset = address(memory_.scratch.data()) + offset;
        break;
      case Space::kStaging:
        bound.offset = address(memory_.staging.data()) + offset;
        break;
      default:
        bound.base = kFirstSlotBase + slot_class(operand.space);
        bound.offset = offset;
    }
    bound_program_.operands.push_back(bound);
  }

  static uintptr_t address(const std::byte* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

  void fill_views() {
    for (const BoundSegment& segment : bound_program_.segments) {
      const graph::Graph& graph = code_.chunks[index(segment.segment->chunk)];
      for (const BoundInstruction& bound : segment.instructions) {
        size_t at = bound.first;
        for (const std::vector<graph::Operand>* operands :
             {&bound.instruction->inputs, &bound.instruction->outputs}) {
          for (const graph::Operand& operand : *operands) {
            const graph::Value& value = graph.value(operand.value);
            bound_program_.views[at++] = {nullptr, value.dtype, value.stored};
          }
        }
      }
    }
  }

  const graph::Program& program_;
  const graph::StageCode& code_;
  const Memory& memory_;
  std::span<backend::Backend* const> backends_;
  comm::Transport& transport_;
  BoundProgram bound_program_;
};

}  // namespace

Result<Memory> allocate_memory(const graph::Program& program, const State& state,
                               std::span<backend::Backend* const> backends) {
  const graph::StageCode& code = *program.code;
  Memory memory;
  backend::Backend& own = *backends.front();
  const auto allocate = [&](backend::Backend& backend, int64_t bytes,
                            std::string_view what) -> Result<tensor::Buffer> {
    memory.total += bytes;
    return backend.allocate(bytes).context(std::string(what));
  };
  int64_t side_bytes = 0;
  for (const graph::BufferPlan& plan : code.buffers) {
    memory.buffers.push_back(nullptr);
    memory.input_offset.push_back(0);
    if (plan.space == Space::kState || plan.space == Space::kDerived) {
      memory.buffers.back() = state.find(plan.name).as<std::byte>();
      INGOT_CHECK(memory.buffers.back() != nullptr, "the state has no buffer {}", plan.name);
    } else if (plan.space == Space::kStep) {
      INGOT_TRY(tensor::Buffer buffer, allocate(backend_of(backends, plan.memory), plan.bytes(), plan.name));
      memory.buffers.back() = buffer.data();
      memory.step.push_back(std::move(buffer));
    } else {
      INGOT_CHECK(plan.space == Space::kInput, "buffer {} lies in {}", plan.name, graph::name_of(plan.space));
      memory.input_offset.back() = side_bytes;
      side_bytes += tensor::align_up(plan.bytes());
    }
  }
  for (tensor::Buffer& side : memory.input) {
    INGOT_TRY(side, allocate(own, side_bytes, "inputs"));
  }
  for (const graph::Segment& segment : code.segments) {
    memory.scratch_bytes = std::max(memory.scratch_bytes, segment.scratch_bytes);
    memory.staging_bytes = std::max(memory.staging_bytes, segment.staging_bytes);
  }
  INGOT_TRY(memory.scratch, allocate(own, memory.scratch_bytes, "scratch"));
  INGOT_TRY(memory.staging, allocate(*backends.back(), memory.staging_bytes, "staging"));
  for (size_t c = 0; c < graph::kSlotClasses; ++c) {
    const graph::Pool& pool = program.pools[c];
    INGOT_TRY(memory.slots[c], allocate(own, pool.slot_bytes * pool.slots, "slots"));
  }
  return memory;
}

Result<BoundProgram> bind_program(const graph::Program& program, const Memory& memory,
                                  std::span<backend::Backend* const> backends, comm::Transport& transport) {
  return Binder(program, memory, backends, transport).run();
}

}  // namespace ingot::runtime
