#include "graph/compile.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/passes/draft.h"
#include "graph/passes/passes.h"

namespace ingot::graph {
namespace {

Result<void> check_options(const CompileOptions& options) {
  if (options.targets.empty() || options.targets[0] == nullptr) return invalid("compile needs a target");
  if (options.update_on_second_target && (options.targets.size() < 2 || options.targets[1] == nullptr))
    return invalid("an update on the second target needs a second target");
  if (options.threads < 1)
    return invalid(fmt::format("threads is {}; it must be at least 1", options.threads));
  const Target& target = *options.targets[0];
  if (!std::ranges::count(target.precisions, options.precision)) {
    std::string known;
    for (const Precision precision : target.precisions)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(precision));
    return invalid(fmt::format("target {} does not compute in {}; it does in {}", target.name,
                               name_of(options.precision), known));
  }
  if (options.recompute == Recompute::kFull && has_weight_phase(options.layout.schedule)) {
    return invalid(fmt::format(
        "recompute \"full\" makes again what schedule \"{}\" then keeps for its weight gradients, and "
        "saves nothing; use recompute \"selective\"",
        options.layout.schedule));
  }
  return {};
}

// What the passes before data_shard do, each chunk alone.
void make_phases(Graph& chunk, const CompileOptions& options) {
  if (options.purpose == Purpose::kTrain) {
    differentiate(chunk);
    recompute(chunk, options.recompute);
    if (has_weight_phase(options.layout.schedule)) split_weights(chunk);
  }
  lower(chunk, options.layout);
}

// Where gradients begin: the head is seeded, control undoes it.
double seed_gradients(Graph& graph, Precision precision) {
  double seed = 1;
  for (Node& node : graph.nodes) {
    if (node.op != Op::kHeadLoss) continue;
    seed = gradient_seed(precision, graph.value(node.inputs[0]).logical[1]);
    node.attributes.scale = seed == 1 ? 0 : seed;
  }
  return seed;
}

// Where the layout does not say it, the model is cut by the cost of its training step.
Result<void> choose_first_layers(const Graph& placed, CompileOptions& options) {
  if (options.layout.chunks() == 1 || !options.layout.first_layers.empty()) return {};
  if (options.purpose != Purpose::kTrain)
    return invalid("a program beside a training program needs that one's first_layers");
  Graph costed = placed;
  make_phases(costed, options);
  INGOT_TRY(options.layout.first_layers, balance_chunks(costed, options.layout));
  return {};
}

Program assemble(Draft&& draft) {
  Program program;
  program.purpose = draft.options.purpose;
  program.layout = draft.options.layout;
  program.stage = draft.stage;
  program.precision = draft.options.precision;
  program.targets = draft.options.targets;
  program.threads = draft.options.threads;
  program.timeline = std::move(draft.timeline);
  program.transfers = std::move(draft.transfers);
  program.begin_segment = draft.begin_segment;
  program.finish_segment = draft.finish_segment;
  program.pools = draft.pools;
  program.memory = draft.memory;
  program.unrolled_live_bytes = draft.unrolled_live_bytes;
  auto code = std::make_shared<StageCode>();
  code->chunks = std::move(draft.chunks);
  code->finish_chunk = draft.finish;
  code->segments = std::move(draft.segments);
  code->buffers = std::move(draft.buffers);
  code->buckets = std::move(draft.buckets);
  program.code = std::move(code);
  return program;
}

}  // namespace

Result<Program> compile(Graph forward, const CompileOptions& options, int stage) {
  INGOT_TRY_VOID(check_options(options));
  INGOT_TRY_VOID(check_schedule(options, stage));
  Graph typed = precision_pass(forward, options.precision, options.residual_dtype);
  const bool trains = options.purpose == Purpose::kTrain;
  Draft draft;
  if (trains) draft.gradient_seed = seed_gradients(typed, options.precision);
  INGOT_TRY(Graph placed, partition_pass(typed, options.layout.mesh, trains));
  draft.options = options;
  draft.stage = stage;
  INGOT_TRY_VOID(choose_first_layers(placed, draft.options));
  INGOT_TRY(draft.chunks, cut_stages(std::move(placed), draft.options.layout, stage));
  for (Graph& chunk : draft.chunks) make_phases(chunk, options);
  INGOT_TRY_VOID(shard_data(draft));
  add_optimizer(draft);
  fuse(draft);
  make_schedule(draft);
  plan_waits(draft);
  plan_memory(draft);
  draft.unrolled_live_bytes = unrolled_live_bytes(draft);
  Program program = assemble(std::move(draft));
  if (options.check) INGOT_TRY_VOID(verify(program));
  return program;
}

}  // namespace ingot::graph
