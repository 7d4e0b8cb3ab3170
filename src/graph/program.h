#pragma once
// The step program of one pipeline stage: straight lists of instructions with planned addresses, a timeline that says
// which list runs for which micro-batch, and byte totals. Made by compile() (graph/compile.h), read by the executor,
// the simulator, the memory report, FLOP accounting and the trace. Rank-free: coordinates are filled in when bound.

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/target.h"

namespace ingot::graph {

// Six lifetimes; `slots` has seven classes. Offsets count from the base of the space (slots: of the slot).
enum class Space : uint8_t {
  kState, kDerived, kStep, kInput, kScratch,
  kForwardBackward, kForwardWeight, kBackwardWeight, kInForward, kOutForward, kInBackward, kOutBackward,
};
inline constexpr int kSpaceCount = 12;
inline constexpr int kFirstSlotSpace = 5;
inline constexpr int kSlotClasses = 7;
std::string_view name_of(Space space);
std::string_view name_of(Phase phase);

struct Operand {
  ValueId value = kNoValue;      // of the chunk's graph: name, dtype, shape
  Space space = Space::kScratch;
  int32_t buffer = -1;           // kState, kDerived, kStep, kInput: index into StageCode::buffers
  int64_t offset = 0;            // bytes from the base of the buffer, slot or scratch area
};

// Workspace is the last `workspace_bytes` from `workspace_offset` of the scratch area.
struct Instruction {
  int id = 0;                    // unique in the stage, in program order; what traces and reports speak of
  int node = 0;                  // index into the chunk's graph
  std::vector<Operand> inputs, outputs;
  int64_t workspace_offset = 0, workspace_bytes = 0;
};

// A straight list: nothing loops or branches.
struct Segment {
  int chunk = 0;                 // index into StageCode::chunks
  Phase phase = Phase::kForward;
  std::vector<Instruction> instructions;
  int64_t scratch_bytes = 0;
  int64_t live_bytes = 0;        // greatest sum of live scratch values: lower bound of scratch_bytes
};

// A persistent buffer, bound by name. Lifetimes state and derived outlive the program; step and input belong to it.
struct BufferPlan {
  std::string name;              // "param.3", "grad.3", "exp_avg.3", "pack.h.0.attn.q.weight.forward", "batch.tokens"
  Space space = Space::kState;
  DType dtype = DType::kF32;
  int64_t elements = 0;
  int bucket = -1;
  tensor::MemorySpace memory;
  int64_t bytes() const { return elements * tensor::size_of(dtype); }
};

// Parameters reduced and updated together. Homogeneous in reduce axes, replica axes, decay and learning-rate factor.
struct Bucket {
  int id = 0;
  int layer = -1;
  std::vector<int> parameters;
  std::vector<int64_t> offsets;  // elements, one per parameter
  int64_t elements = 0;          // whole, padded
  int64_t shard_elements = 0;    // elements / size of the reduce group with ZeRO, else elements
  AxisMask reduce_axes = 0;      // dp, cp, ...: where its gradient is summed
  AxisMask replica_axes = 0;     // where the same shard is held more than once
  double norm_weight = 1;        // 1 / copies, so that each element counts once in the norm
  bool decay = false;
  double learning_rate_factor = 1;
};

struct StageCode {
  std::vector<Graph> chunks;     // then one graph for begin and finish, index finish_chunk
  int finish_chunk = 0;
  std::vector<Segment> segments; // begin and finish included
  std::vector<BufferPlan> buffers;
  std::vector<Bucket> buckets;
};

struct Invocation {
  int segment = 0;
  int micro_batch = 0;
  bool first = false, last = false;        // of this chunk and phase
  std::array<int16_t, kSlotClasses> slot;  // which slot of each class, -1: none
};

struct Pool {                    // one per slot class, shared by the chunks of the stage
  int64_t slot_bytes = 0;
  int slots = 0;
};

struct MemoryTotals {            // bytes of one rank; the peak is their sum
  int64_t state = 0, derived = 0, step = 0, input = 0, slots = 0, scratch = 0;
  int64_t total() const { return state + derived + step + input + slots + scratch; }
};

enum class Purpose : uint8_t { kTrain, kEvaluate, kDecode };

struct Program {
  std::shared_ptr<const StageCode> code;
  Purpose purpose = Purpose::kTrain;
  Layout layout;
  int stage = 0;
  Precision precision = Precision::kF32;
  std::vector<const Target*> targets;      // node.target indexes these
  std::vector<Invocation> timeline;        // begin is not in it (run when parameters changed); finish is its last entry
  int begin_segment = -1, finish_segment = -1;
  std::array<Pool, kSlotClasses> pools;
  MemoryTotals memory;
  int64_t unrolled_live_bytes = 0;         // greatest live activation bytes of the fully unrolled step
};

// Text form, stable: ids, names, shapes, dtypes, placements, groups, never addresses (grammar: docs/formats/program.md).
std::string print(const Program& program);
std::string to_json(const Program& program);
// "backward[0] mb 7: all_reduce #88 (gradients of layer 12, 50 MiB)"
std::string describe(const Program& program, const Invocation& invocation, const Instruction& instruction);

}  // namespace ingot::graph
