#include "runtime/training_for_tests.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

#include "backend/backend.h"
#include "base/hash.h"
#include "base/random.h"
#include "graph/ops.h"
#include "graph/ownership.h"

namespace ingot::runtime {
namespace {

size_t index(int64_t i) { return static_cast<size_t>(i); }

uint64_t mixed(uint64_t a, uint64_t b, uint64_t c) { return hash_combine(hash_combine(a, b), c); }

void store(const TensorView& view, int64_t i, double value) {
  if (view.dtype == tensor::DType::kF64) {
    view.as<double>()[i] = value;
  } else {
    view.as<float>()[i] = static_cast<float>(value);
  }
}

double load(const TensorView& view, int64_t i) {
  return view.dtype == tensor::DType::kF64 ? view.as<double>()[i] : static_cast<double>(view.as<float>()[i]);
}

// Calls visit(index in the entry's view, index in the logical tensor) for each element that a rank holds.
template <class Visit>
void for_each_held(const State::Entry& entry, const graph::Parameter& parameter, const graph::Mesh& mesh,
                   int rank, const Visit& visit) {
  const graph::Region region = graph::owned_region(parameter, mesh, rank);
  const int64_t rows = parameter.logical.rank() > 1 ? region.count[0] : 1;
  const int last = parameter.logical.rank() - 1;
  const int64_t columns = region.count[index(last)];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t logical_row = last > 0 ? region.first[0] + r : 0;
      const int64_t held = r * parameter.stored.last() + c - entry.first;
      if (held < 0 || held >= entry.view.elements()) continue;
      visit(held, logical_row * parameter.logical.last() + region.first[index(last)] + c);
    }
  }
}

void collect(const State& state, const graph::Program& program, int rank, Outcome& outcome) {
  for (const State::Entry& entry : state.entries(program, rank)) {
    if (entry.kind == "exp_avg_sq") continue;
    const graph::Parameter& parameter = program.code->chunks.front().parameters[index(entry.index)];
    std::vector<double>& whole =
        (entry.kind == "param" ? outcome.parameters : outcome.first_moments)[parameter.name];
    whole.resize(index(parameter.logical.elements()), std::nan(""));
    for_each_held(entry, parameter, program.layout.mesh, rank,
                  [&](int64_t held, int64_t logical) { whole[index(logical)] = load(entry.view, held); });
  }
}

int micro_batches_of(const Training& training, int replica) {
  return training.micro_batches[training.micro_batches.size() == 1 ? 0 : index(replica)];
}

// First sample of a replica in a step; steps follow each other.
int64_t first_sample(const Training& training, int step, int replica) {
  int64_t before = 0, all = 0;
  for (int r = 0; r < training.dp; ++r) {
    if (r == replica) before = all;
    all += micro_batches_of(training, r) * training.shape.batch;
  }
  return step * all + before;
}

double square_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

// |a - b| / |b|; a tensor of under 1e-12 of `global` (a key bias has no gradient) is compared with that.
void compare(Worst& worst, const std::string& where, const std::vector<double>& a,
             const std::vector<double>& b, double global = 0) {
  if (a.size() != b.size()) worst = {1, where + " has another size"};
  double difference = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]);
  const double own = std::sqrt(square_of(b));
  const double error = std::sqrt(difference) / (own < 1e-12 * global ? global : own);
  if (!(error <= worst.difference)) worst = {error, where};
}

double global_norm(const Parameters& tensors) {
  double sum = 0;
  for (const auto& [name, values] : tensors) sum += square_of(values);
  return std::sqrt(sum);
}

class Rank {
 public:
  Rank(const Training& training, comm::Transport& transport) : training_(training), transport_(transport) {}

  Result<void> run(Outcome& outcome, std::mutex& mutex) {
    const int rank = transport_.rank();
    const graph::Mesh mesh = mesh_of(training_);
    const int replica = mesh.index(rank, graph::kDpMask), context = mesh.index(rank, graph::kCpMask);
    const int m = micro_batches_of(training_, replica);
    graph::Program program = compile_or_fail(training_, m, graph::Purpose::kTrain,
                                             mesh.coordinate(rank, graph::Axis::kPp), replica);
    if (training_.change) training_.change(program);
    std::vector<std::unique_ptr<backend::Backend>> owned;
    std::vector<backend::Backend*> backends;
    for (const std::string& name : training_.backends) {
      INGOT_TRY(auto backend, backend::make_backend(name));
      backends.push_back(backend.get());
      owned.push_back(std::move(backend));
    }
    for (backend::Backend* backend : backends) backend->prepare_thread();
    ThreadPool pool(training_.threads, [&] { backends.front()->prepare_thread(); });
    State state;
    ExecutorOptions options;
    options.pool = &pool;
    options.seed = 42;
    options.overlap = training_.beside ? Overlap::kBeside : training_.lazy ? Overlap::kLate : Overlap::kEarly;
    options.poison = training_.poison;
    options.comm_timeout = std::chrono::seconds(20);
    INGOT_TRY(auto executor, Executor::create(program, state, backends, transport_, options));
    fill_parameters(state, program, rank);
    state.start_scalars(training_.loss_scale);
    for (int step = 0; step < training_.steps; ++step) {
      const int side = step % 2;
      fill_batch(*executor, training_, first_sample(training_, step, replica), side, context);
      if (training_.before_step) training_.before_step(*executor, step, rank);
      INGOT_TRY(const StepTiming timing, executor->run_step(side));
      if (training_.timed) training_.timed(timing);
      if (training_.after_step) training_.after_step(*executor, state, step, rank);
      const auto* scalars = state.find("control.scalars").as<double>();
      const std::lock_guard lock(mutex);
      record(outcome.losses, step, scalars[graph::kLastLoss]);
      record(outcome.norms, step, scalars[graph::kLastNorm]);
      record(outcome.applied, step, scalars[graph::kApply]);
      record(outcome.scales, step, scalars[graph::kLossScale]);
    }
    const std::lock_guard lock(mutex);
    collect(state, program, rank, outcome);
    return {};
  }

 private:
  // The first rank to finish a step notes its values; the others must have the same bits.
  static void record(std::vector<double>& values, int step, double value) {
    if (index(step) == values.size()) values.push_back(value);
    const double noted = values[index(step)];
    EXPECT_TRUE(noted == value || (std::isnan(noted) && std::isnan(value))) << noted << " and " << value;
  }

  const Training& training_;
  comm::Transport& transport_;
};

}  // namespace

double parameter_value(const std::string& name, int64_t i) {
  const double spread =
      random_normal(random_key(7, RandomPurpose::kInit, hash64(name)), static_cast<uint64_t>(i), 0);
  const bool gain = name.find("ln") != std::string::npos && name.ends_with(".weight");
  return (gain ? 1.0 : 0.0) + 0.2 * spread;
}

void fill_parameters(State& state, const graph::Program& program, int rank) {
  for (const State::Entry& entry : state.entries(program, rank)) {
    if (entry.kind != "param") continue;
    const graph::Parameter& parameter = program.code->chunks.front().parameters[index(entry.index)];
    for_each_held(entry, parameter, program.layout.mesh, rank, [&](int64_t held, int64_t logical) {
      store(entry.view, held, parameter_value(parameter.name, logical));
    });
  }
  state.touch_parameters();
}

void fill_batch(Executor& executor, const Training& training, int64_t first, int side, int context) {
  const std::vector<int64_t> held = graph::context_positions(training.shape.sequence, training.cp, context);
  const int64_t samples = executor.micro_batches() * training.shape.batch;
  const auto length = static_cast<int64_t>(held.size());
  const TensorView tokens = executor.input("batch.tokens", side),
                   labels = executor.input("batch.labels", side),
                   mask = executor.input("batch.loss_mask", side),
                   position = executor.input("batch.position", side),
                   start = executor.input("batch.doc_start", side),
                   sample = executor.input("batch.sample", side), step = executor.input("control.step", side);
  const auto token = [&](int64_t s, int64_t t) {
    return static_cast<int32_t>(mixed(11, static_cast<uint64_t>(s), static_cast<uint64_t>(t)) %
                                static_cast<uint64_t>(training.vocabulary));
  };
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t s = first + i;
    std::vector<int32_t> starts(index(training.shape.sequence), 0);
    for (int64_t t = 1; t < training.shape.sequence; ++t) {
      const bool begins =
          training.documents && mixed(13, static_cast<uint64_t>(s), static_cast<uint64_t>(t)) % 5 == 0;
      starts[index(t)] = begins ? static_cast<int32_t>(t) : starts[index(t - 1)];
    }
    if (sample.data != nullptr) sample.as<int64_t>()[i] = s;
    for (int64_t column = 0; column < length; ++column) {
      const int64_t at = i * length + column, t = held[index(column)];
      if (tokens.data != nullptr) tokens.as<int32_t>()[at] = token(s, t);
      if (labels.data != nullptr) labels.as<int32_t>()[at] = token(s, t + 1);
      // Some masked, so that micro-batches count different numbers of tokens.
      if (mask.data != nullptr)
        mask.as<float>()[at] =
            mixed(17, static_cast<uint64_t>(s), static_cast<uint64_t>(t)) % 4 == 0 ? 0.0F : 1.0F;
      if (position.data != nullptr) position.as<int32_t>()[at] = static_cast<int32_t>(t);
      if (start.data != nullptr) start.as<int32_t>()[at] = starts[index(t)];
    }
  }
  if (step.data == nullptr) return;
  step.as<double>()[graph::kLearningRate] = training.learning_rate;
  step.as<double>()[graph::kLossScaling] = training.dynamic_scale ? 1 : 0;
}

graph::Mesh mesh_of(const Training& training) {
  auto mesh = graph::make_mesh(training.dp, training.tp, training.pp, training.cp, 1, training.kv_heads,
                               training.zero_group);
  INGOT_CHECK(mesh.has_value(), "{}", mesh.error().message);
  return *mesh;
}

graph::Program compile_or_fail(const Training& training, int micro_batches, graph::Purpose purpose, int stage,
                               int replica) {
  graph::BuildOptions shape = training.shape;
  shape.purpose = purpose;
  graph::CompileOptions options;
  options.layout.mesh = mesh_of(training);
  options.layout.schedule = training.schedule;
  options.layout.virtual_stages = training.virtual_stages;
  options.layout.first_layers = training.first_layers;
  options.layout.zero_stage = training.zero_stage;
  options.layout.bucket_bytes = training.bucket_bytes;
  options.layout.determinism_groups = training.determinism_groups;
  options.layout.replica = replica;
  if (training.micro_batches.size() > 1) options.layout.replica_micro_batches = training.micro_batches;
  options.layout.context_mode = training.context_mode;
  options.layout.micro_batches = micro_batches;
  options.purpose = purpose;
  options.precision = training.precision;
  options.threads = training.threads;
  options.recompute = training.recompute;
  options.optimizer.clip = training.clip;
  options.optimizer.epsilon = training.epsilon;
  std::vector<std::unique_ptr<backend::Backend>> backends;
  for (const std::string& name : training.backends) {
    auto backend = backend::make_backend(name);
    INGOT_CHECK(backend.has_value(), "{}", backend.error().message);
    options.targets.push_back(&(*backend)->target());  // static data, outlives the backend
    backends.push_back(std::move(*backend));
  }
  options.update_on_second_target = options.targets.size() > 1;
  auto program = graph::compile(training.build(shape), options, stage);
  INGOT_CHECK(program.has_value(), "{}", program.error().message);
  return std::move(*program);
}

namespace {

// Each rank joins a world of its transport, and leaves it in order.
void train_joined(const Training& training, Outcome& outcome, std::mutex& mutex) {
  static std::atomic<int> worlds{0};
  const int ranks = mesh_of(training).world();
  const std::string address =
      (std::filesystem::temp_directory_path() / fmt::format("ingot-training-{}-{}", getpid(), ++worlds))
          .string();
  const auto run = [&](int rank) -> Result<void> {
    INGOT_TRY(const auto transport, comm::join_world(training.transport, rank, ranks, address));
    INGOT_TRY_VOID(Rank(training, *transport).run(outcome, mutex));
    return transport->leave({});
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const Result<void> result = run(rank);
      const std::lock_guard lock(mutex);
      if (!result && outcome.error.empty()) outcome.error = result.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

Outcome train(const Training& training) {
  Outcome outcome;
  std::mutex mutex;
  if (training.transport != "local") {
    train_joined(training, outcome, mutex);
    return outcome;
  }
  auto world = comm::make_local_world(mesh_of(training).world(), !training.lazy);
  std::vector<std::thread> threads;
  for (auto& transport : world) {
    threads.emplace_back([&] {
      auto result = Rank(training, *transport).run(outcome, mutex);
      const std::lock_guard lock(mutex);
      if (!result && outcome.error.empty()) outcome.error = result.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

Worst greatest_error(const Outcome& outcome, const Outcome& expected) {
  Worst worst;
  compare(worst, "losses", outcome.losses, expected.losses);
  compare(worst, "norms", outcome.norms, expected.norms);
  const double moments = global_norm(expected.first_moments);
  for (const auto& [name, values] : expected.parameters) {
    const auto found = outcome.parameters.find(name);
    if (found == outcome.parameters.end()) return {1, name + " is missing"};
    compare(worst, name, found->second, values);
    compare(worst, name + " moment", outcome.first_moments.at(name), expected.first_moments.at(name),
            moments);
  }
  return worst;
}

}  // namespace ingot::runtime
