#include "train/small_run_for_tests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

namespace ingot::train {

spec::ModelSpec small_model(const std::string& family, int kv_heads) {
  spec::ModelSpec model = spec::default_model(family);
  model.family = family;
  model.vocab_size = kSmallVocab;
  model.max_positions = kSmallSeqLen;
  model.hidden_size = 32;
  model.num_layers = 2;
  model.num_heads = 4;
  model.num_kv_heads = family == "gpt2" ? 4 : kv_heads;
  model.head_dim = 0;
  model.intermediate_size = family == "gpt2" ? 0 : 72;
  model.dropout = model.embedding_dropout = 0;
  spec::resolve_model(&model);
  return model;
}

ResolvedRun resolved(const SmallRun& small) {
  ResolvedRun run;
  run.spec.model = small_model(small.family, small.kv_heads);
  run.spec.data.seq_len = small.seq_len;
  run.spec.optimizer.learning_rate = small.learning_rate;
  run.spec.run.seed = 7;
  run.spec.parallel.zero_stage = small.zero_stage;
  if (small.determinism_groups > 0) run.spec.run.determinism_groups = small.determinism_groups;
  run.precision = small.precision;
  run.backend = small.backend;
  run.threads = small.threads;
  run.batch = {.global_batch = small.global_batch,
               .micro_batch = small.micro_batch,
               .replicas = small.dp,
               .shares = small.shares};
  auto mesh = graph::make_mesh(small.dp, small.tp, small.pp, small.cp, 1,
                               static_cast<int>(run.spec.model.num_kv_heads), small.zero_group);
  INGOT_CHECK(mesh.has_value(), "{}", mesh.error().message);
  run.mesh = *mesh;
  run.train_steps = small.steps;
  run.schedule = {.shape = LrShape::kCosine,
                  .peak = small.learning_rate,
                  .floor = 0.1 * small.learning_rate,
                  .warmup_steps = 2,
                  .total_steps = small.steps};
  return run;
}

std::unique_ptr<Session> make_session(const SmallRun& small) {
  const ResolvedRun run = resolved(small);
  auto programs = compile_programs(run);
  INGOT_CHECK(programs.has_value(), "{}", programs.error().message);
  auto session = Session::create(run, std::move(*programs));
  INGOT_CHECK(session.has_value(), "{}", session.error().message);
  return std::move(*session);
}

void on_joined_ranks(const SmallRun& small, const std::function<void(Session& session, int rank)>& body) {
  std::vector<std::thread> threads;
  for (auto& transport : comm::make_local_world(resolved(small).mesh.world())) {
    threads.emplace_back([&small, &body, own = std::move(transport)]() mutable {
      ResolvedRun run = resolved(small);
      run.rank = own->rank();
      auto programs = compile_programs(run);
      INGOT_CHECK(programs.has_value(), "{}", programs.error().message);
      auto session = Session::join(run, std::move(*programs), std::move(own));
      INGOT_CHECK(session.has_value(), "{}", session.error().message);
      body(**session, run.rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

SmallData::SmallData() {
  data::write_shard(folder_ / "small.tok", data::counted_tokens(6000, kSmallVocab), {0, 100, 4000},
                    kSmallVocab);
  auto stream = data::TokenStream::open({folder_ / "small.tok"});
  INGOT_CHECK(stream.has_value(), "{}", stream.error().message);
  stream_ = std::move(*stream);
}

std::vector<StepOutcome> train_steps(Session& session, int64_t first, int64_t end) {
  std::vector<StepOutcome> outcomes;
  for (int64_t step = first; step < end; ++step) {
    auto outcome = session.step(step, {});
    INGOT_CHECK(outcome.has_value(), "{}", outcome.error().message);
    outcomes.push_back(*outcome);
  }
  return outcomes;
}

std::vector<StepOutcome> train_from_start(Session& session, const SmallData& data, int64_t end) {
  session.initialise();
  auto started = session.start_data(data.stream(), 0, nullptr);
  INGOT_CHECK(started.has_value(), "{}", started.error().message);
  return train_steps(session, 0, end);
}

std::vector<double> losses_of(const std::vector<StepOutcome>& outcomes) {
  std::vector<double> losses;
  for (const StepOutcome& outcome : outcomes) losses.push_back(outcome.loss);
  return losses;
}

std::vector<float> all_weights(Session& session) {
  std::map<std::string, std::vector<float>> by_name;  // layouts order them differently
  for (const Weights::Tensor& tensor : session.weights().tensors()) {
    std::vector<float>& values = by_name[tensor.parameter + "/" + tensor.kind];
    values.resize(static_cast<size_t>(tensor.definition->logical.elements()));
    session.weights().gather(tensor, 0, values);
  }
  std::vector<float> all;
  for (const auto& [name, values] : by_name) all.insert(all.end(), values.begin(), values.end());
  return all;
}

double greatest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double greatest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    greatest = std::max(greatest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return greatest;
}

}  // namespace ingot::train
