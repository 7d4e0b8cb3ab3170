#pragma once
// The program of a stage in the making: what the passes from data_shard to verify hand to each other. Each is
// a function over a Draft (or, before that, over one Graph) in a file of its own; the chain is
// graph/compile.cc.

#include <span>
#include <string>
#include <vector>

#include "graph/compile.h"
#include "graph/program.h"

namespace ingot::graph {

// Indexes into Draft::buffers of a bucket's four.
struct BucketBuffers {
  int parameter = -1, gradient = -1, first_moment = -1, second_moment = -1;
  // determinism = "layout": sums of finished branches of the tree, which wait to be added to.
  std::vector<int> branches;
};

// A stretch of a bucket, elements [begin, end), whose gradients are summed over the same axes.
struct GradientRun {
  int64_t begin = 0, end = 0;
  AxisMask axes = 0;
};

// Where a parameter lies: bucket, and elements from its start.
struct BucketPlace {
  int bucket = -1;
  int64_t offset = 0;
};

struct Draft {
  CompileOptions options;
  int stage = 0;
  std::vector<Graph> chunks;  // the stage's chunks; from data_shard on, then the graph of begin and finish
  int finish = -1;            // index of that graph
  std::vector<BufferPlan> buffers;
  std::vector<Bucket> buckets;
  std::vector<BucketBuffers> bucket_buffers;
  std::vector<BucketPlace> places;         // by parameter
  int sums = -1, scalars = -1, step = -1;  // indexes of the control blocks' buffers
  int parts = -1;                          // sums by leaf of the tree, with determinism = "layout"
  std::vector<Segment> segments;
  std::vector<Invocation> timeline;
  std::vector<Transfer> transfers;
  int begin_segment = -1, finish_segment = -1;
  std::array<Pool, kSlotClasses> pools{};
  MemoryTotals memory;
  int64_t unrolled_live_bytes = 0;
  double gradient_seed = 1;  // besides the loss scale (passes.h)

  Graph& finish_graph() { return chunks[static_cast<size_t>(finish)]; }
  int find_buffer(const std::string& name) const;  // -1 when absent
  int add_buffer(BufferPlan buffer);               // the index of the one of that name, made when absent

  // True where a rank keeps a part only of the bucket's buffer of `kind` (graph/ownership.h).
  bool cuts(const Bucket& bucket, std::string_view kind) const;
  // A value that is all of a buffer.
  Value persistent(int buffer, Role role = Role::kState) const;
  // A value that is what this rank owns of one of the bucket's buffers: its shard, of all that it holds or in
  // the whole; or the whole where ZeRO shares nothing out.
  Value shard(const Bucket& bucket, int buffer) const;
  // What this rank adds up of one of the bucket's buffers when gradients are summed by the tree: as many
  // elements on each data parallel rank.
  Value data_part(const Bucket& bucket, int buffer) const;
  AxisMask data_axes() const;  // of data parallelism, those of more than one rank
  bool sums_by_tree() const { return options.layout.determinism_groups > 0; }
  int own_groups() const {
    return options.layout.determinism_groups / options.layout.mesh.group_size(kDpMask);
  }
  // A node on the data stream, without operands.
  Node collective(Op op, AxisMask group, Phase phase, int layer) const;
};

// Appends a value by the very name that it has, which others may have: all views of a parameter, of an
// accumulator or of a buffer are read as one thing.
ValueId add_by_name(Graph& graph, Value value);

AxisMask axes_in_use(const Mesh& mesh);  // those of more than one rank

// The value at the end of a chain of views, and how many bytes into it `value` begins.
struct Root {
  ValueId value = kNoValue;
  int64_t offset = 0;
};
Root root_of(const Graph& graph, ValueId value);

// From the first byte of an operand to the end of what it may be: where a shard begins is not known before
// the program is bound.
int64_t reach_of(const Mesh& mesh, const Graph& graph, ValueId value);

// Only these run on a stream of their own, beside the compute stream.
inline bool is_asynchronous(const Node& node) { return node.stream != Stream::kCompute; }

// What runs `when` runs in every micro-batch in which what runs `other` does.
inline bool runs_whenever(When when, When other) { return when == When::kAlways || when == other; }

// ---------------------------------------------------------------- the passes, in order

// The first layer of each of the layout's chunks, so that the costliest chunk is as cheap as can be; -1 is
// the embedding, the number of layers the head. `costed`: the whole model with all phases. Errors: fewer
// layers than chunks.
Result<std::vector<int>> balance_chunks(const Graph& costed, const Layout& layout);
// The chunks of `stage`, cut at layout.first_layers, each with the parameters that the stage reads. Chunk c
// of the stage is chunk c * pp + stage of the model. Errors: first layers that do not ascend from -1; a
// parameter that other stages than the first and the last share.
Result<std::vector<Graph>> cut_stages(Graph graph, const Layout& layout, int stage);
// Appends the backward nodes of whatever depends on parameters.
void differentiate(Graph& graph);
// Clones, just before their first backward reader, the values that `mode` does not keep.
void recompute(Graph& graph, Recompute mode);
// Moves gradients of weights, and the clones that feed only them, to Phase::kWeight.
void split_weights(Graph& graph);
// Rewrites coarse nodes for the layout: attention over cp in its ring form.
void lower(Graph& graph, const Layout& layout);
// The next three, and copies of parameters to begin. Errors: a ZeRO stage that cannot do with the layout.
Result<void> shard_data(Draft& draft);
// Buckets, buffers, and the place in them of every value that outlives a step.
void make_buckets(Draft& draft);
// Gathers of parameters of which a rank keeps a shard.
void gather_parameters(Draft& draft);
// Sums of gradients: in the chunks, and in `finish` those that several chunks write. Errors: such a one where
// sums go by a tree.
Result<void> reduce_gradients(Draft& draft, Graph& finish);
// Sums of a bucket over axes besides data parallelism: of stretches, and of all of it afterwards.
struct OtherSums {
  std::span<const GradientRun> runs;
  AxisMask after = 0;
};
// determinism = "layout": appends to `graph` what adds the sums of a bucket's groups up the tree as they are
// finished, and what gives each rank the branches of its part; to `later` what adds these up, which may come
// when other work was issued.
void sum_by_tree(Draft& draft, Graph& graph, const Bucket& bucket, Phase phase, const OtherSums& others,
                 std::vector<Node>& later);
// The same for loss and tokens: kept by group.
void keep_loss_by_group(Draft& draft, Graph& graph);
// The value of a leaf among those of this rank, in `graph`.
ValueId own_leaf(Draft& draft, Graph& graph, int leaf);
// The nodes of finish.
void add_optimizer(Draft& draft);
// Replaces patterns by what the targets offer, weights by packed copies; drops derived buffers that nobody
// reads.
void fuse(Draft& draft);
// One entry of a stage's schedule.
struct Work {
  Phase phase = Phase::kForward;
  int chunk = 0;
  int micro_batch = 0;
  bool operator==(const Work&) const = default;
};
// Errors: a stage that is not there; an unknown schedule (the known ones are named), or numbers of chunks and
// micro-batches that it cannot do.
Result<void> check_schedule(const CompileOptions& options, int stage);
// What a stage works on is a matter of these numbers alone (passes/timeline.cc). Chunks are the stage's own.
struct TimelineInput {
  int stages = 1, virtual_stages = 1, micro_batches = 1, stage = 0;
};
// The order of work of one stage in a training step; the schedule and its numbers were checked.
std::vector<Work> timeline(std::string_view schedule, const TimelineInput& input);
// The same without backward, for every schedule.
std::vector<Work> forward_timeline(const TimelineInput& input);
// True where the schedule runs weight gradients as a phase of their own.
bool has_weight_phase(std::string_view schedule);
// Segments with their instructions and ids, the timeline, and transfers with their positions in it.
void make_schedule(Draft& draft);
// Fills waits and joins: what each instruction must wait for.
void plan_waits(Draft& draft);
// Slots, scratch, addresses, totals.
void plan_memory(Draft& draft);
// The greatest sum of live activation bytes when every invocation of the timeline is laid end to end.
int64_t unrolled_live_bytes(const Draft& draft);
// Proves the plan. Errors: a sentence for the first thing that is wrong.
Result<void> verify(const Program& program);
// The part of it about transfers and the owners of slots.
Result<void> verify_slot_owners(const Program& program);
// Over all stages of a step: every send meets one receive of the same bytes, and messages of one tag are
// posted in the same order on both sides.
Result<void> verify_transfers(std::span<const Program> stages);

}  // namespace ingot::graph
