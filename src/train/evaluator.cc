#include "train/evaluator.h"

#include "graph/compile.h"
#include "graph/ops.h"
#include "model/model.h"

namespace ingot::train {

Evaluator::~Evaluator() = default;

Result<std::unique_ptr<Evaluator>> Evaluator::create(const EvaluatorOptions& options) {
  std::unique_ptr<Evaluator> evaluator(new Evaluator());
  evaluator->options_ = options;
  INGOT_TRY(graph::Graph graph, model::build_graph(options.model, {.purpose = graph::Purpose::kEvaluate,
                                                                   .batch = options.batch,
                                                                   .sequence = options.seq_len}));
  graph::CompileOptions compile;
  compile.threads = RankTeam::threads_of(1, options.threads);
  compile.purpose = graph::Purpose::kEvaluate;
  compile.precision = options.precision;
  compile.targets = {graph::find_target(options.backend)};
  INGOT_TRY(evaluator->program_, graph::compile(std::move(graph), compile));
  INGOT_TRY(evaluator->team_, RankTeam::create(1, options.threads, options.backend));
  Rank& rank = evaluator->team_->rank(0);
  INGOT_TRY_VOID(rank.state.reserve(evaluator->program_));
  runtime::ExecutorOptions executor;
  executor.pool = rank.pool.get();
  INGOT_TRY(evaluator->executor_, runtime::Executor::create(evaluator->program_, rank.state,
                                                            {rank.backend.get()}, *rank.transport, executor));
  rank.state.find("control.scalars").as<double>()[graph::kLossScale] = 1;
  evaluator->weights_ =
      std::make_unique<Weights>(*evaluator->team_, std::vector<const graph::Program*>{&evaluator->program_});
  return evaluator;
}

Result<Evaluation> Evaluator::evaluate(const data::TokenStream& stream, int64_t max_tokens) {
  const EvaluationInputs inputs{.team = team_.get(),
                                .executor = [this](int) -> runtime::Executor& { return *executor_; },
                                .mesh = program_.layout.mesh,
                                .batch = options_.batch,
                                .seq_len = options_.seq_len,
                                .document_mask = options_.document_mask};
  return evaluate_stream(inputs, stream, max_tokens);
}

}  // namespace ingot::train
