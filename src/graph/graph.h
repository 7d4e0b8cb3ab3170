#pragma once
// The graph of one chunk (a run of layers) for one micro-batch: values and nodes, all phases in one value
// space. A model family writes the forward nodes through Builder (graph/builder.h) and knows neither mesh nor
// data type nor backward; passes (graph/passes.h) turn the graph into a Program (graph/program.h). To add an
// operation: one file in ops/ with its four rules and one row in ops.cc.
//
// Shapes in comments: B micro-batch, T sequence, C hidden, H heads, G key-value heads, D head size, F
// feed-forward, V vocabulary, S cache length.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/mesh.h"
#include "tensor/tensor.h"

namespace ingot::graph {

using tensor::DType;
using tensor::Shape;
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

// ---------------------------------------------------------------- values

// Where a value is along one mesh axis: the same on all ranks; the same, with a gradient that is partial; cut
// along dimension `dim`; a partial sum.
enum class Placement : uint8_t { kReplicated, kBroadcast, kSharded, kPartial };
struct Place {
  Placement kind = Placement::kReplicated;
  int8_t dim = -1;
  bool operator==(const Place&) const = default;
};
using Places = std::array<Place, kAxisCount>;

enum class Role : uint8_t {
  kActivation,  // made and read inside a step
  kData,        // a field of the batch, or computed from such fields alone
  kParameter,   // a parameter, or a copy computed from parameters alone
  kGradient,    // accumulator of a parameter's gradient: its writers add
  kState,       // outlives the step: optimizer, caches, control sums, scalars
};

// A dimension whose extent is data: planned at `maximum` (the stored extent), really `count` (an int32
// value).
struct Bound {
  int8_t dim = -1;  // -1: none
  ValueId count = kNoValue;
};

struct Value {
  std::string name;  // for people: "h.0.attn.q", unique in the graph
  Shape logical;     // of the whole tensor over the mesh, without padding
  Shape stored;      // what one rank holds, with padding
  DType dtype = DType::kF32;
  Role role = Role::kActivation;
  int parameter = -1;  // kParameter, kGradient: index into Graph::parameters
  Places places{};
  Bound bound;
  ValueId base = kNoValue;  // a view: this value's bytes are base's, from `base_offset` elements on
  int64_t base_offset = 0;
  int buffer = -1;  // persistent: index into StageCode::buffers, `buffer_offset` elements in
  int64_t buffer_offset = 0;
  AxisMask shard_group = 0;  // and then index(shard_group) * stored elements further, filled in when bound
  tensor::MemorySpace space;

  int64_t bytes() const { return stored.elements() * tensor::size_of(dtype); }
};

// ---------------------------------------------------------------- operations

// The closed list. Operands of each are stated in graph/ops.h.
// clang-format off
enum class Op : uint8_t {
  kEmbed, kEmbedDw, kLinear, kLinearDx, kLinearDw, kNorm, kNormDx, kNormDw, kRotary,
  kAttention, kAttentionGrad, kActivation, kActivationGrad, kAdd, kDropout, kHeadStats, kHeadLoss,
  kAllReduce, kAllGather, kReduceScatter, kSlice, kBroadcastGrad, kSend, kReceive,
  kCast, kPack, kSumSquares, kControl, kAdamW, kCacheAppend, kAttentionCached, kSampleLogits, kZero, kCopy,
  kAttentionMerge, kRingShift, kAllToAll,
};
// clang-format on
inline constexpr int kOpCount = 37;

enum class Phase : uint8_t { kBegin, kForward, kBackward, kWeight, kFinish };
inline constexpr int kPhaseCount = 5;
// In which micro-batches of its chunk and phase a node runs. Where gradients are summed in groups of
// micro-batches (Layout::determinism_groups) kFirst is the first of each group, kGroup the last of the
// node's.
enum class When : uint8_t { kAlways, kFirst, kLast, kGroup };
enum class Stream : uint8_t { kCompute, kTp, kDp, kTransfer, kCp };
inline constexpr int kStreamCount = 5;
enum class ActivationKind : uint8_t { kNone, kGeluTanh, kGeluErf, kSilu, kSwiGlu };

// Attributes of a node. One struct for all operations: a field not used by the operation keeps its default,
// and the printer shows only what differs from the default.
struct Attributes {
  // collectives and slice; embed, head_*: the ranks that hold the other parts of the table
  AxisMask group = 0;  // the ranks that take part
  int group_size = 1;
  int8_t dim = -1;                // dimension gathered, scattered or sliced
  bool gradient_partial = false;  // all_gather of S -> B: its dual is reduce_scatter, else slice
  // all_to_all, by member: rows of the input for it, rows of the output from it
  std::vector<int64_t> sent_rows{}, received_rows{};
  int peer = 0;  // send, receive: stage offset, +1 or -1
  int tag = 0;   // send, receive: the boundary value
  // mathematics
  ActivationKind activation = ActivationKind::kNone;
  bool rms = false;        // norm: RMS, else layer norm
  double epsilon = 0;      // norm, adamw
  int head_dim = 0;        // attention, rotary: D
  double scale = 0;        // attention: of the scores; cast, head_loss, control: factor, 0 means 1
  double theta = 0;        // rotary: base
  double rope_factor = 0;  // rotary: Llama 3 scaling, off when 0
  double rope_low = 0, rope_high = 0, rope_original = 0;
  bool inverse = false;             // rotary: the opposite rotation (its own gradient)
  bool document_positions = false;  // rotary: position - doc_start, else position
  double rate = 0;                  // dropout
  uint64_t site = 0;                // dropout: which use, counted by the builder, copied by clones
  double weight = 1;       // head_loss: share of the loss this rank counts; sum_squares: weight in the norm
  int64_t vocabulary = 0;  // head_*: logical V; columns beyond it are padding
  bool with_gradient = false;  // head_loss: also makes dx and dw
  // optimizer
  double beta1 = 0, beta2 = 0, weight_decay = 0, learning_rate_factor = 1, clip = 0;
  bool update = true;    // control: false in evaluation, where it only reports sums
  std::string layout{};  // pack: row of Target::packed

  bool operator==(const Attributes&) const = default;
};

struct Node {
  Op op = Op::kAdd;
  Phase phase = Phase::kForward;
  When when = When::kAlways;
  Stream stream = Stream::kCompute;
  uint8_t target = 0;       // which of the compile's targets runs it
  bool clone = false;       // made by recompute
  bool zero_first = false;  // accumulating outputs: overwrite on the first micro-batch
  int layer = -1;           // -1 before the first layer, L after the last
  int group = -1;           // kGroup: of the replica's groups
  std::vector<ValueId> inputs{}, outputs{};
  Attributes attributes{};
};

// ---------------------------------------------------------------- parameters

// Names of parameter axes that a family may use; one table (passes/partition.cc) maps them to mesh axes.
enum class AxisName : uint8_t { kNone, kVocab, kHeads, kKvHeads, kFfn, kEmbed, kExperts, kSequence };

enum class InitKind : uint8_t { kNormal, kZeros, kOnes };
struct Init {
  InitKind kind = InitKind::kNormal;
  double stddev = 0.02;
};

// Where a parameter lies in a Hugging Face checkpoint: a whole tensor, or rows of one (after transposition).
struct HuggingFaceName {
  std::string tensor;       // "transformer.h.0.attn.c_attn.weight"
  bool transposed = false;  // stored [in, out] there
  int64_t row = 0;          // first row of ours in theirs (after transposition)
  int64_t rows = 0;         // rows of the whole tensor there, 0: the same as ours
};

struct Parameter {
  std::string name;  // ours: "h.0.attn.q.weight"
  HuggingFaceName hugging_face;
  Shape logical;               // [out, in] for matrices
  Shape stored;                // one rank's part, with padding; set by partition
  std::vector<AxisName> axes;  // one per dimension
  Init init;
  bool decay = false;  // weight decay applies
  double learning_rate_factor = 1;
  bool matrix_unit = false;  // the optimizer works on whole matrices (Muon), else on elements
  int layer = -1;
  Places places{};       // set by partition
  AxisMask partial = 0;  // axes besides dp and cp over which its gradient must be summed: those where
                         // `places` is kBroadcast; set by partition
  bool tied = false;     // read by the embedding and the head
};

// ---------------------------------------------------------------- graph

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;  // in execution order within a phase
  std::vector<Parameter> parameters;
  int layers = 0;  // L of the model

  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  // Appends; a name that is taken gets ".2", ".3", ...
  ValueId add_value(Value value);
  // Appends a node and returns its outputs. Where node.outputs is empty the shape rule of the operation makes
  // them, named after the weight ("h.0.attn.q") or the operation ("h.0.add"); else they are taken as they are
  // (accumulators, in place).
  std::vector<ValueId> add_node(Node node);
  ValueId parameter_value(
      int parameter);  // the one value that stands for it (not its copies), made when first asked
  ValueId gradient_value(
      int parameter);  // its accumulator, of the parameter's data type, made when first asked
  ValueId find_value(std::string_view name) const;  // kNoValue when there is none

 private:
  std::vector<ValueId> parameter_values_, gradient_values_;
  std::unordered_map<std::string, int> uses_;  // of a name by add_value
};

// Index of the first node that writes each value, -1 for none (parameters, data, state read before written).
std::vector<int> producers(const Graph& graph);

// Where the gradient of a value so placed is: R -> R, B -> P, P -> R, S stays.
Place gradient_place(Place place);

}  // namespace ingot::graph
