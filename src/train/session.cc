#include "train/session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/clock.h"
#include "comm/texts.h"
#include "model/model.h"
#include "train/batch_views.h"

namespace ingot::train {
namespace {

using graph::Purpose;

constexpr double kDataTimeoutSeconds = 600;

graph::Recompute recompute_of(spec::Recompute recompute) {
  switch (recompute) {
    case spec::Recompute::kSelective:
      return graph::Recompute::kSelective;
    case spec::Recompute::kFull:
      return graph::Recompute::kFull;
    case spec::Recompute::kNone:
    case spec::Recompute::kAuto:
      return graph::Recompute::kNone;
  }
  return graph::Recompute::kNone;
}

// Row of the table in graph/passes/schedule.cc.
const char* schedule_name(spec::PipelineSchedule schedule) {
  switch (schedule) {
    case spec::PipelineSchedule::kOneFOneB:
      return "1f1b";
    case spec::PipelineSchedule::kInterleaved:
      return "interleaved";
    case spec::PipelineSchedule::kZeroBubble:
      return "zb-h1";
    case spec::PipelineSchedule::kGpipe:
      return "gpipe";
  }
  return "1f1b";
}

std::optional<tensor::DType> dtype_of(const std::optional<spec::Precision>& precision) {
  if (!precision) return std::nullopt;
  return *precision == spec::Precision::kBf16 ? tensor::DType::kBF16 : tensor::DType::kF32;
}

graph::Layout layout_of(const ResolvedRun& run, int64_t replica) {
  const spec::ParallelSpec& parallel = run.spec.parallel;
  graph::Layout layout;
  layout.mesh = run.mesh;
  layout.zero_stage = static_cast<int>(parallel.zero_stage.value_or(0));
  layout.micro_batches = static_cast<int>(run.batch.micro_batches(replica));
  for (const int64_t share : run.batch.shares)
    layout.replica_micro_batches.push_back(static_cast<int>(share));
  layout.determinism_groups = static_cast<int>(run.spec.run.determinism_groups.value_or(0));
  layout.replica = static_cast<int>(replica);
  layout.schedule = schedule_name(parallel.pp_schedule);
  layout.virtual_stages = static_cast<int>(parallel.virtual_stages);
  layout.bucket_bytes = parallel.bucket_size;
  layout.context_mode = parallel.cp_mode == spec::ContextMode::kAllGather ? graph::ContextMode::kGather
                                                                          : graph::ContextMode::kRing;
  return layout;
}

// Where a program's stage, replica and cut into chunks matter.
struct Part {
  int stage = 0;
  int64_t replica = 0;
  std::vector<int> first_layers;  // empty: chosen
};

graph::CompileOptions options_of(const ResolvedRun& run, Purpose purpose, const Part& part) {
  const spec::OptimizerSpec& optimizer = run.spec.optimizer;
  graph::CompileOptions options;
  options.layout = layout_of(run, part.replica);
  options.layout.first_layers = part.first_layers;
  if (purpose != Purpose::kTrain) {
    options.layout.micro_batches = 1;
    options.layout.replica_micro_batches.clear();
  }
  options.threads = RankTeam::threads_of(run.ranks_here(), run.threads);
  options.purpose = purpose;
  options.precision = run.precision;
  options.residual_dtype = dtype_of(run.spec.run.residual_dtype);
  options.recompute = recompute_of(run.spec.parallel.recompute);
  options.optimizer = {.beta1 = optimizer.adam_beta1,
                       .beta2 = optimizer.adam_beta2,
                       .epsilon = optimizer.adam_eps,
                       .weight_decay = optimizer.weight_decay,
                       .clip = optimizer.clip_grad};
  options.targets = {graph::find_target(run.backend)};
  return options;
}

Result<std::shared_ptr<const graph::Program>> compile_program(const ResolvedRun& run, Purpose purpose,
                                                              const Part& part) {
  const graph::BuildOptions build{
      .purpose = purpose, .batch = run.batch.micro_batch, .sequence = run.seq_len()};
  INGOT_TRY(graph::Graph graph, model::build_graph(run.spec.model, build));
  INGOT_TRY(graph::Program program,
            graph::compile(std::move(graph), options_of(run, purpose, part), part.stage));
  return std::make_shared<const graph::Program>(std::move(program));
}

}  // namespace

Result<RunPrograms> compile_programs(const ResolvedRun& run) {
  // By stage and m; where sums go by a tree, by stage and replica: each has other branches.
  std::map<std::pair<int, int64_t>, std::shared_ptr<const graph::Program>> train;
  std::map<int, std::shared_ptr<const graph::Program>> evaluate;  // by stage
  std::vector<int> first_layers;  // as the first program cuts them: all share one state
  RunPrograms programs;
  for (int i = 0; i < run.ranks_here(); ++i) {
    const int rank = run.rank_here(i);
    const Part part{run.mesh.coordinate(rank, graph::Axis::kPp), run.mesh.index(rank, graph::kDpMask),
                    first_layers};
    auto& own_train = train[{
        part.stage, run.spec.run.determinism_groups ? part.replica : run.batch.micro_batches(part.replica)}];
    auto& own_evaluate = evaluate[part.stage];
    if (!own_train) {
      INGOT_TRY(own_train, compile_program(run, Purpose::kTrain, part));
      first_layers = own_train->layout.first_layers;
    }
    if (!own_evaluate) {
      INGOT_TRY(own_evaluate,
                compile_program(run, Purpose::kEvaluate, {part.stage, part.replica, first_layers}));
    }
    programs.push_back({own_train, own_evaluate});
  }
  return programs;
}

graph::MemoryTotals planned_memory(const RunPrograms& programs) {
  graph::MemoryTotals sum;
  for (const RankPrograms& own : programs) {
    const graph::MemoryTotals& memory = own.train->memory;
    sum.state += memory.state;
    sum.derived += memory.derived;
    sum.step += memory.step;
    sum.input += memory.input;
    sum.slots += memory.slots;
    sum.scratch += memory.scratch;
    sum.staging += memory.staging;
  }
  return sum;
}

struct Session::Engine {
  std::unique_ptr<runtime::Executor> train, evaluate;
  std::unique_ptr<data::Loader> loader;
};

Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(const ResolvedRun& run, RunPrograms programs) {
  INGOT_CHECK(run.rank < 0, "rank {} of a world of processes has no transport", run.rank);
  INGOT_TRY(std::unique_ptr<RankTeam> team, RankTeam::create(run.mesh.world(), run.threads, run.backend));
  return make(run, std::move(programs), std::move(team));
}

Result<std::unique_ptr<Session>> Session::join(const ResolvedRun& run, RunPrograms programs,
                                               std::unique_ptr<comm::Transport> transport) {
  INGOT_CHECK(run.rank == transport->rank(), "rank {} joins as rank {}", run.rank, transport->rank());
  INGOT_TRY(std::unique_ptr<RankTeam> team, RankTeam::join(std::move(transport), run.threads, run.backend));
  return make(run, std::move(programs), std::move(team));
}

Result<std::unique_ptr<Session>> Session::make(const ResolvedRun& run, RunPrograms programs,
                                               std::unique_ptr<RankTeam> team) {
  std::unique_ptr<Session> session(new Session());
  session->run_ = run;
  session->programs_ = std::move(programs);
  session->team_ = std::move(team);
  session->engines_.resize(static_cast<size_t>(session->team_->size()));
  Session* self = session.get();
  INGOT_TRY_VOID(session->team_->each([self](Rank& rank) { return self->prepare(rank); }));
  std::vector<const graph::Program*> programs_by_rank;
  for (const RankPrograms& own : session->programs_) programs_by_rank.push_back(own.train.get());
  session->weights_ = std::make_unique<Weights>(*session->team_, programs_by_rank);
  return session;
}

Result<void> Session::prepare(Rank& rank) {
  auto engine = std::make_unique<Engine>();
  const RankPrograms& programs = programs_[static_cast<size_t>(rank.index)];
  INGOT_TRY_VOID(rank.state.reserve(*programs.train));
  INGOT_TRY_VOID(rank.state.reserve(*programs.evaluate));
  runtime::ExecutorOptions options;
  options.pool = rank.pool.get();
  options.seed = static_cast<uint64_t>(run_.spec.run.seed);
  options.comm_timeout =
      std::chrono::milliseconds(static_cast<int64_t>(run_.spec.parallel.comm_timeout * 1000));
  if (team_->world() > 1) options.overlap = runtime::Overlap::kBeside;
#ifdef INGOT_POISON
  options.poison = true;
#endif
  INGOT_TRY(engine->train, runtime::Executor::create(*programs.train, rank.state, {rank.backend.get()},
                                                     *rank.transport, options));
  INGOT_TRY(engine->evaluate, runtime::Executor::create(*programs.evaluate, rank.state, {rank.backend.get()},
                                                        *rank.transport, options));
  engines_[static_cast<size_t>(rank.index)] = std::move(engine);
  return {};
}

std::span<double> Session::scalars(int index) {
  const tensor::TensorView view = team_->rank(index).state.find("control.scalars");
  INGOT_CHECK(view.data != nullptr && view.dtype == tensor::DType::kF64, "control.scalars is not bound");
  return {view.as<double>(), static_cast<size_t>(graph::kControlBlock)};
}

int64_t Session::planned_bytes() const {
  int64_t bytes = planned_memory(programs_).total();
  for (const RankPrograms& own : programs_) {
    const graph::MemoryTotals& evaluate = own.evaluate->memory;
    bytes += evaluate.total() - evaluate.state - evaluate.derived;
  }
  return bytes;
}

void Session::initialise() {
  weights_->initialise(static_cast<uint64_t>(run_.spec.run.seed));
  for (int r = 0; r < team_->size(); ++r) {
    const std::span<double> values = scalars(r);
    std::fill(values.begin(), values.end(), 0.0);
    values[graph::kLossScale] = 1;
  }
}

void Session::fill_step_block(Engine& engine, int side, int64_t step, double rate, Requests own) {
  double* block = engine.train->input("control.step", side).as<double>();
  std::fill_n(block, graph::kControlBlock, 0.0);
  block[graph::kLearningRate] = rate;
  block[graph::kStepNumber] = static_cast<double>(step);
  for (int i = 0; i < graph::kRequestCount; ++i)
    block[graph::kOwnRequests + i] = own.has(static_cast<graph::Request>(i)) ? 1 : 0;
}

namespace {

// Any tokens, one document, everything counted.
void make_up(const data::BatchView& view, const data::Slice& slice, int64_t vocabulary) {
  const auto token = [vocabulary](size_t i) {
    constexpr uint64_t kScatter = 2654435761U;  // Knuth's multiplicative hash
    return static_cast<int32_t>((i * kScatter >> 8U) % static_cast<uint64_t>(vocabulary));
  };
  const auto width = static_cast<size_t>(slice.width());
  for (size_t i = 0; i < view.tokens.size(); ++i) view.tokens[i] = token(i);
  for (size_t i = 0; i < view.labels.size(); ++i) view.labels[i] = token(i);
  for (size_t i = 0; i < view.position.size(); ++i)
    view.position[i] = static_cast<int32_t>(slice.columns.empty() ? static_cast<int64_t>(i % width)
                                                                  : slice.columns[i % width]);
  std::ranges::fill(view.loss_mask, 1.0F);
  std::ranges::fill(view.doc_start, 0);
}

}  // namespace

void Session::fill_made_up_batch() {
  for (int i = 0; i < team_->size(); ++i) {
    Engine& engine = *engines_[static_cast<size_t>(i)];
    const data::Slice slice = slice_of(run_.mesh, team_->rank(i).rank, run_.seq_len());
    for (const data::BatchView& view : batch_views(*engine.train, 0, run_.batch.micro_batch, slice.width()))
      make_up(view, slice, run_.spec.model.vocab_size);
    fill_step_block(engine, 0, 0, 0.0, {});
  }
}

Result<void> Session::run_made_up_step() {
  INGOT_TRY_VOID(team_->each([&](Rank& rank) -> Result<void> {
    INGOT_TRY([[maybe_unused]] const runtime::StepTiming timing,
              engines_[static_cast<size_t>(rank.index)]->train->run_step(0));
    return {};
  }));
  weights_->touch();  // as a real step does: the next one packs its weights again
  return {};
}

Result<double> Session::measure_step(double at_least_seconds) {
  fill_made_up_batch();
  const auto timed = [&]() -> Result<double> {
    const int64_t begin = monotonic_ns();
    INGOT_TRY_VOID(run_made_up_step());
    return static_cast<double>(monotonic_ns() - begin) * 1e-9;
  };
  constexpr double kMostSteps = 50;
  INGOT_TRY([[maybe_unused]] const double fresh, timed());  // it touches fresh memory
  INGOT_TRY(double first, timed());
  INGOT_TRY(const double chosen, of_rank_0(std::min(kMostSteps, std::ceil(at_least_seconds / first))));
  std::vector<double> seconds = {first};
  while (seconds.size() < 2 || static_cast<double>(seconds.size()) < chosen) {
    INGOT_TRY(seconds.emplace_back(), timed());
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return of_rank_0(*middle);
}

Result<double> Session::of_rank_0(double value) {
  const tensor::TensorView view{&value, tensor::DType::kF64, tensor::Shape{1}};
  if (!team_->whole())
    INGOT_TRY_VOID(team_->rank(0).control->broadcast(view, 0, {.what = "a choice of rank 0"}));
  return value;
}

Result<void> Session::start_data(const data::TokenStream& stream, int64_t first_step, EventLog* events) {
  return team_->each([&](Rank& rank) -> Result<void> {
    Engine& engine = *engines_[static_cast<size_t>(rank.index)];
    data::LoaderOptions options;
    options.layout = run_.batch;
    options.slice = slice_of(run_.mesh, rank.rank, run_.seq_len());
    options.replica = run_.mesh.index(rank.rank, graph::kDpMask);
    options.first_step = first_step;
    options.end_step = run_.train_steps;
    options.document_mask = run_.spec.data.document_mask;
    options.on_corrupt =
        run_.spec.data.on_corrupt == spec::OnCorrupt::kSkip ? data::OnCorrupt::kSkip : data::OnCorrupt::kFail;
    options.events = rank.index == 0 ? events : nullptr;
    const auto view = [&](int side) {
      return batch_views(*engine.train, side, run_.batch.micro_batch, options.slice.width());
    };
    const data::Sampler order =
        data::Sampler::shuffled(stream.samples(run_.seq_len()), static_cast<uint64_t>(run_.spec.run.seed));
    engine.loader.reset();  // one that runs would go on filling the same buffers
    INGOT_TRY(engine.loader, data::Loader::start(stream, order, options, view(0), view(1)));
    return {};
  });
}

namespace {

// The first instruction of any rank that made a non-finite value; all ranks get the same.
Result<std::string> first_non_finite(Rank& rank, runtime::Executor& executor, int side) {
  INGOT_TRY(const runtime::NonFinite found, executor.find_non_finite(side));
  // Texts that sort as what they tell came about.
  const std::string own = found.instruction < 0
                              ? std::string()
                              : fmt::format("{:08}{:08}{}", found.micro_batch, found.turn, found.where);
  INGOT_TRY(std::vector<std::string> of_all,
            comm::exchange_texts(*rank.control, own, {.what = "the first non-finite value"}));
  std::erase(of_all, std::string());
  return of_all.empty() ? std::string() : std::ranges::min_element(of_all)->substr(16);
}

}  // namespace

Result<void> Session::step_of(Rank& rank, int64_t step, Requests own, StepOutcome* outcome) {
  Engine& engine = *engines_[static_cast<size_t>(rank.index)];
  INGOT_TRY(const data::LoadedStep loaded, engine.loader->acquire(step, kDataTimeoutSeconds));
  fill_step_block(engine, loaded.buffer, step, learning_rate(run_.schedule, step), own);
  if (comm::ProgressPage* const page = rank.transport->page(); page != nullptr) page->step = step + 1;
  INGOT_TRY(const runtime::StepTiming timing, engine.train->run_step(loaded.buffer));
  const std::span<const double> values = scalars(rank.index);
  if (rank.index == 0) {
    outcome->loss = values[graph::kLastLoss];
    outcome->grad_norm = values[graph::kLastNorm];
    outcome->tokens = values[graph::kLastTokens];
    outcome->loss_scale = values[graph::kLossScale];
    outcome->applied = values[graph::kApply] != 0;
    for (int i = 0; i < graph::kRequestCount; ++i)
      if (values[static_cast<size_t>(graph::kRequestSums + i)] > 0)
        outcome->requests.add(static_cast<graph::Request>(i));
    outcome->data_stall_seconds = static_cast<double>(loaded.stall_ns) * 1e-9;
    outcome->communication_seconds = static_cast<double>(timing.communication_ns) * 1e-9;
  }
  if (values[graph::kApply] == 0) {
    INGOT_TRY(const std::string where, first_non_finite(rank, *engine.train, loaded.buffer));
    if (rank.index == 0) outcome->first_non_finite = where;
  }
  engine.loader->release(step);
  return {};
}

Result<StepOutcome> Session::step(int64_t step, Requests own) {
  StepOutcome outcome;
  const int64_t begin = monotonic_ns();
  const auto body = [&](Rank& rank) { return step_of(rank, step, own, &outcome); };
  INGOT_TRY_VOID(team_->each(std::cref(body)));  // a copy of the body would be allocated
  if (outcome.applied) weights_->touch();
  outcome.seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  return outcome;
}

Result<Evaluation> Session::evaluate(const data::TokenStream& stream, int64_t max_tokens) {
  const EvaluationInputs inputs{.team = team_.get(),
                                .executor = [this](int index) -> runtime::Executor& {
                                  return *engines_[static_cast<size_t>(index)]->evaluate;
                                },
                                .mesh = run_.mesh,
                                .batch = run_.batch.micro_batch,
                                .seq_len = run_.seq_len(),
                                .document_mask = run_.spec.data.document_mask};
  return evaluate_stream(inputs, stream, max_tokens);
}

void Session::set_budget(const ResolvedRun& run) {
  run_.train_steps = run.train_steps;
  run_.schedule = run.schedule;
  run_.spec = run.spec;
}

int64_t Session::substituted_samples() const {
  const auto& loader = engines_[0]->loader;
  return loader ? loader->substituted_samples() : 0;
}

Result<void> Session::leave() {
  return team_->each([](Rank& rank) { return rank.transport->leave({.what = "the end of the run"}); });
}

void Session::set_observer(runtime::Observer observer) {
  engines_[0]->train->set_observer(std::move(observer));
}

}  // namespace ingot::train
