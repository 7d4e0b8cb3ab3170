#pragma once
// The step program of one pipeline stage: straight lists of instructions with planned addresses, a timeline
// that says which list runs for which micro-batch, and byte totals. Made by compile() (graph/compile.h), read
// by the executor, the simulator, the memory report, FLOP accounting and the trace. Rank-free: coordinates
// are filled in when bound.

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/target.h"

namespace ingot::graph {

// Where an operand's bytes lie; one base address each, filled in when bound. Offsets count from that base:
// - kState, kDerived, kStep, kInput: of the buffer; in kInput that of the side in use, and
//   micro_batch * micro_batch_bytes() further
// - kScratch: of the scratch area, in the memory of targets[0]; contents end with the segment
// - kStaging: the same in the memory of targets[1]
// - the seven slot classes: of the invocation's slot of that class (Invocation::slot)
enum class Space : uint8_t {
  kState,
  kDerived,
  kStep,
  kInput,
  kScratch,
  kStaging,
  kForwardBackward,
  kForwardWeight,
  kBackwardWeight,
  kInForward,
  kOutForward,
  kInBackward,
  kOutBackward,
};
inline constexpr int kSpaceCount = 13;
inline constexpr int kFirstSlotSpace = 6;
inline constexpr int kSlotClasses = 7;
std::string_view name_of(Space space);
std::string_view name_of(Phase phase);

struct Operand {
  ValueId value = kNoValue;  // of the chunk's graph: name, dtype, shape
  Space space = Space::kScratch;
  int32_t buffer = -1;  // kState, kDerived, kStep, kInput: index into StageCode::buffers
  int64_t offset = 0;   // bytes from the base of the buffer, slot or scratch area
};

// A node with its place: everything else (op, attributes, when, stream, target, zero_first) is read from the
// node.
//
// An instruction whose node is on another stream than kCompute is asynchronous: it may run at any time
// between its turn and the first instruction that waits for it. Executors obey `waits` and `Segment::joins`
// and nothing else: the plan's lifetimes come from the same lists (passes/memory.cc), and the verifier proves
// that they suffice. `zero_first` speaks of Role::kGradient outputs only; control sums always add.
struct Instruction {
  int id = 0;    // unique in the stage, in program order; what traces and reports speak of
  int node = 0;  // index into the chunk's graph
  std::vector<Operand> inputs, outputs;
  // In kScratch, or kStaging where node.target is 1; 64-byte aligned, not initialised.
  int64_t workspace_offset = 0, workspace_bytes = 0;
  // Ids of asynchronous instructions, of this or earlier segments, that must have finished before this one
  // starts; one that is not outstanding (its `when` did not come) is no wait. A stream works in order, so
  // waiting for one is waiting for all before it on its stream.
  std::vector<int> waits;
};

// A straight list: nothing loops or branches.
struct Segment {
  int chunk = 0;  // index into StageCode::chunks
  Phase phase = Phase::kForward;
  std::vector<Instruction> instructions;
  std::vector<Instruction> crossings;  // its sends and receives, which run as transfers beside the timeline
  std::vector<int>
      joins;  // ids that must have finished before the segment ends: those that touch scratch or slots
  int64_t scratch_bytes = 0;
  int64_t staging_bytes = 0;
  int64_t live_bytes = 0;  // greatest sum of live scratch values: lower bound of scratch_bytes
};

// A persistent buffer, bound by name. Lifetimes state and derived outlive the program; step and input belong
// to it. All are zeroed once, when made: gaps between the parameters of a bucket are never written and stay
// zero. Names (with the bucket's number), the same for every program over the same parameters and layout:
// - state: "param.3", "exp_avg.3", "exp_avg_sq.3", "control.scalars", and caches by the builder's name
// - derived: "cast.<parameter>.<dtype>", "pack.<parameter>.<layout>"
// - step: "grad.3", "control.sums", and in decoding "logits"; with Layout::determinism_groups
// "grad.3.branch.0"
//   and "control.parts" (sums by group, [groups * 16])
// - input: "batch.tokens" and others (one per field that the graph reads), "control.step" (the step block)
struct BufferPlan {
  std::string name;
  Space space = Space::kState;
  DType dtype = DType::kF32;
  int64_t elements = 0;              // kInput: of one side (there are kInputSides), all micro-batches
  int64_t micro_batch_elements = 0;  // kInput: elements of one micro-batch, 0: one block for the step
  Shape shape;                       // kInput, caches, logits: of one micro-batch; else [elements]
  int bucket = -1;
  tensor::MemorySpace memory;
  int64_t bytes() const { return elements * tensor::size_of(dtype); }
  int64_t micro_batch_bytes() const { return micro_batch_elements * tensor::size_of(dtype); }
};
inline constexpr int kInputSides = 2;  // one is filled while the other is read

// Parameters reduced and updated together. Homogeneous in layer, replica axes, decay and learning-rate
// factor: a function of parameters and layout alone, so that train, evaluation and decoding programs share
// one State. Sums over further axes (Parameter::partial) are made over runs of parameters inside it.
struct Bucket {
  int id = 0;
  int layer = -1;
  std::vector<int> parameters;
  std::vector<int64_t> offsets;  // elements, one per parameter
  int64_t elements = 0;          // whole, padded
  int64_t shard_elements = 0;    // elements / size of the group of shard_axes
  AxisMask reduce_axes = 0;      // dp, cp, ...: where its gradient is summed
  AxisMask shard_axes = 0;       // the part of reduce_axes whose ranks ZeRO shares it out to; none in stage 0
  AxisMask replica_axes = 0;     // where the same elements are held more than once after the reduction
  double norm_weight = 1;        // 1 / copies, so that each element counts once in the norm
  bool decay = false;
  double learning_rate_factor = 1;
};

struct StageCode {
  std::vector<Graph> chunks;  // then one graph for begin and finish, index finish_chunk
  int finish_chunk = 0;
  std::vector<Segment> segments;  // begin and finish included
  std::vector<BufferPlan> buffers;
  std::vector<Bucket> buckets;
};

struct Invocation {
  int segment = 0;
  int micro_batch = 0;
  bool first = false, last = false;        // of this chunk and phase; first: of each group of micro-batches
  int group = -1;                          // that this micro-batch ends
  std::array<int16_t, kSlotClasses> slot;  // which slot of each class, -1: none
};

// A boundary value sent to or received from a neighbour stage: posted before the invocation at `post` runs
// and finished before the one at `wait` (positions in the timeline; its length: the end). At one position all
// are posted in the order of Program::transfers before any is waited for. A receive is posted one invocation
// ahead of its first reader; a send ends before the invocation that makes the next but one of its direction.
struct Transfer {
  int id = 0;  // in the space of instruction ids
  bool send = false;
  int chunk = 0;
  int segment = 0, crossing = 0;  // its instruction: index into Segment::crossings
  ValueId value = kNoValue;
  int peer = 0;  // stage offset, +1 or -1; the last stage's next is the first
  int tag = 0;   // of the value and the boundary that it crosses; its messages go in order of micro-batches
  int micro_batch = 0;
  int post = 0, wait = 0;
  Space space = Space::kInForward;
  int slot = 0;
  int64_t offset = 0;  // bytes from the base of the slot
};

struct Pool {  // one per slot class, shared by the chunks of the stage
  int64_t slot_bytes = 0;
  int slots = 0;
};

struct MemoryTotals {  // bytes of one rank; the peak is their sum
  int64_t state = 0, derived = 0, step = 0, input = 0, slots = 0, scratch = 0, staging = 0;
  int64_t total() const { return state + derived + step + input + slots + scratch + staging; }
};

enum class Purpose : uint8_t { kTrain, kEvaluate, kDecode };

struct Program {
  std::shared_ptr<const StageCode> code;
  Purpose purpose = Purpose::kTrain;
  Layout layout;
  int stage = 0;
  Precision precision = Precision::kF32;
  std::vector<const Target*> targets;  // node.target indexes these
  int threads = 1;                     // of the pool: workspaces are planned for so many
  std::vector<Invocation>
      timeline;  // begin is not in it (run when parameters changed); finish is its last entry
  std::vector<Transfer> transfers;  // by `post`, receives first; empty for a single stage
  int begin_segment = -1, finish_segment = -1;
  std::array<Pool, kSlotClasses> pools;
  MemoryTotals memory;
  int64_t unrolled_live_bytes = 0;  // greatest live activation bytes of the fully unrolled step
};

// Whether an instruction of this node runs in this invocation of its segment.
bool runs(const Node& node, const Invocation& invocation);

// Text form, stable: ids, names, shapes, dtypes, placements, groups, never addresses (grammar:
// docs/formats/program.md).
std::string print(const Program& program);
std::string to_json(const Program& program);
std::string_view name_of(Purpose purpose);

// Sums over the timeline (begin is not in it), by the cost rules of the operations.
struct StepTotals {
  double flops = 0;            // of matrix products and attention, recompute included
  double recompute_flops = 0;  // the part made by clones: hfu counts it, mfu does not
  double bytes = 0;            // read and written
  double sent_bytes = 0;       // by this rank
  int64_t instructions = 0;
};
StepTotals step_totals(const Program& program);

// "backward[0] mb 7: all_reduce #88 (gradients of layer 12, 50 MiB)"
std::string describe(const Program& program, const Invocation& invocation, const Instruction& instruction);
// "receive #5 (h.3.add.2, mb 2) from stage 0"
std::string describe(const Program& program, const Transfer& transfer);

}  // namespace ingot::graph
