#pragma once
// A program bound to one rank: addresses, kernels, communicators. Made once by bind.cc, run by executor.cc.
// Internal to runtime.

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/ops.h"
#include "runtime/runtime.h"

namespace ingot::runtime {

using tensor::TensorView;

// Base addresses that change from invocation to invocation: the side of the inputs and the slots. Everything
// else is bound to an absolute address, whose base is 0.
inline constexpr size_t kAbsoluteBase = 0, kInputBase = 1, kFirstSlotBase = 2;
inline constexpr size_t kBaseCount = kFirstSlotBase + graph::kSlotClasses;
struct Bases {
  std::array<uintptr_t, kBaseCount> at{};
  int64_t micro_batch = 0;
};

struct BoundOperand {
  size_t base = kAbsoluteBase;
  uintptr_t offset = 0;           // or the absolute address
  int64_t micro_batch_bytes = 0;  // added once per micro-batch
};

enum class Action : uint8_t { kKernel, kAllReduce, kAllGather, kReduceScatter, kAllToAll, kRingShift };

struct BoundInstruction {
  const graph::Instruction* instruction = nullptr;
  const graph::Node* node = nullptr;
  size_t first = 0, inputs = 0, outputs = 0;  // operands and views: inputs, then outputs
  Action action = Action::kKernel;
  bool asynchronous = false;
  bool awaited_at_once = false;  // by the instruction after it: nothing runs beside it
  bool overwrites = false;       // on the first micro-batch
  backend::Backend::Bound kernel;
  comm::Communicator* group = nullptr;
  int group_index = 0;
  std::span<std::byte> workspace;
  std::string what;  // of a collective, for people
};

// An instruction that was issued: it runs as a whole; but the messages of a ring_shift may be posted first
// and waited for later.
enum class Part : uint8_t { kAll, kPost, kWait };
inline constexpr size_t kTickets =
    8;  // of one ring_shift: each operand to the next member, and from the one before
struct Issued {
  const BoundInstruction* instruction = nullptr;
  const graph::Invocation* invocation = nullptr;
  Bases bases;
  std::array<comm::Ticket, kTickets> tickets{};
  bool posted = false;
  uint64_t number = 0;  // of the job, where its stream's thread runs it
};

struct BoundTransfer {
  const graph::Transfer* transfer = nullptr;
  TensorView view;  // in its slot, which does not move
  comm::Communicator* group = nullptr;
  int peer = 0;           // index in the group
  bool frees = false;     // a send after which nobody reads its slot
  std::string what;       // for people
  comm::Ticket ticket{};  // while it is in flight
};

struct BoundSegment {
  const graph::Segment* segment = nullptr;
  std::vector<BoundInstruction> instructions;
};

struct Memory {
  std::vector<std::byte*> buffers;   // per BufferPlan; inputs: of side 0
  std::vector<tensor::Buffer> step;  // owners
  std::array<tensor::Buffer, graph::kInputSides> input;
  std::vector<int64_t> input_offset;  // per BufferPlan, from the start of a side
  tensor::Buffer scratch, staging;
  int64_t scratch_bytes = 0, staging_bytes = 0;
  std::array<tensor::Buffer, graph::kSlotClasses> slots;
  int64_t total = 0;
};

struct BoundProgram {
  std::vector<BoundSegment> segments;  // as StageCode::segments
  std::vector<BoundOperand> operands;
  std::vector<TensorView> views;         // addresses are filled in before each run
  std::vector<BoundTransfer> transfers;  // as Program::transfers
  std::map<std::pair<graph::Stream, graph::AxisMask>, std::unique_ptr<comm::Communicator>> groups;
};

Result<Memory> allocate_memory(const graph::Program& program, const State& state,
                               std::span<backend::Backend* const> backends);
Result<BoundProgram> bind_program(const graph::Program& program, const Memory& memory,
                                  std::span<backend::Backend* const> backends, comm::Transport& transport);

}  // namespace ingot::runtime
