// The kernels of the CPU backend on every part of a layout: float32 and bfloat16 ranks train as one does.
// Exact equality is the reference backend's to prove (partition_slow_test.cc).
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "graph/ops.h"
#include "runtime/models_for_tests.h"
#include "tensor/half.h"

namespace ingot::runtime {
namespace {

struct Layout {
  std::string name;
  int dp = 1, tp = 1, cp = 1;
  int64_t sequence = 8;
  int zero_stage = 0;
  graph::ContextMode context_mode = graph::ContextMode::kRing;
};

struct CpuCase {
  NamedModel model;
  Layout layout;
  graph::Precision precision;
};

std::vector<CpuCase> cases() {
  std::vector<CpuCase> result;
  const std::vector<Layout> layouts = {
      {.name = "tp2", .tp = 2},
      {.name = "tp4", .tp = 4},
      {.name = "tp2_odd_sequence", .tp = 2, .sequence = 7},
      {.name = "dp2_tp2", .dp = 2, .tp = 2},
      {.name = "dp2_zero1", .dp = 2, .zero_stage = 1},
      {.name = "dp2_zero2", .dp = 2, .zero_stage = 2},
      {.name = "dp2_tp2_zero3", .dp = 2, .tp = 2, .zero_stage = 3},
      {.name = "cp2", .cp = 2, .sequence = 12},
      {.name = "cp2_tp2_gather", .tp = 2, .cp = 2, .context_mode = graph::ContextMode::kGather}};
  for (const NamedModel& model : family_models()) {
    if (model.name == "gpt2" || model.name == "llama") continue;  // the others have all that they have
    for (const Layout& layout : layouts)
      for (const graph::Precision precision : {graph::Precision::kF32, graph::Precision::kBF16})
        result.push_back({model, layout, precision});
  }
  return result;
}

// ||a - b|| / ||b|| over all tensors.
double difference(const Parameters& a, const Parameters& b) {
  double apart = 0, size = 0;
  for (const auto& [name, values] : b)
    for (size_t i = 0; i < values.size(); ++i) {
      apart += (a.at(name)[i] - values[i]) * (a.at(name)[i] - values[i]);
      size += values[i] * values[i];
    }
  return std::sqrt(apart / size);
}

float load(const TensorView& view, int64_t i) {
  return view.dtype == tensor::DType::kBF16 ? tensor::float_of_bf16(view.as<uint16_t>()[i])
                                            : view.as<float>()[i];
}

class CpuLayouts : public ::testing::TestWithParam<CpuCase> {
 protected:
  Training one_rank() const {
    const CpuCase& test = GetParam();
    Training training;
    training.build = test.model.build;
    training.kv_heads = test.model.kv_heads;
    training.shape.sequence = test.layout.sequence;
    training.precision = test.precision;
    training.backends = {"cpu"};
    training.micro_batches = {2 * test.layout.dp};
    training.steps = 20;
    return training;
  }
  static Training laid_out(Training training) {
    training.dp = GetParam().layout.dp;
    training.tp = GetParam().layout.tp;
    training.cp = GetParam().layout.cp;
    training.context_mode = GetParam().layout.context_mode;
    training.zero_stage = GetParam().layout.zero_stage;
    training.micro_batches = {2};
    training.lazy = true;
    return training;
  }
  static bool exact() { return GetParam().precision == graph::Precision::kF32; }
};

TEST_P(CpuLayouts, FirstGradientsAreOneRanks) {
  Training one = one_rank();
  one.steps = 1;
  const Outcome expected = train(one), actual = train(laid_out(one));
  ASSERT_EQ(expected.error + actual.error, "");
  // The first moment after one step is a tenth of the gradient.
  EXPECT_LT(difference(actual.first_moments, expected.first_moments), exact() ? 1e-5 : 2e-2);
}

TEST_P(CpuLayouts, LossesStayOneRanks) {
  const Training one = one_rank();
  const Outcome expected = train(one), actual = train(laid_out(one));
  ASSERT_EQ(expected.error + actual.error, "");
  ASSERT_EQ(actual.losses.size(), 20U);
  for (size_t step = 0; step < actual.losses.size(); ++step)
    EXPECT_NEAR(actual.losses[step], expected.losses[step], exact() ? 1e-3 : 5e-2) << "step " << step;
  Training threads = laid_out(one);
  threads.threads = 3;
  const Outcome again = train(threads);
  ASSERT_EQ(again.error, "");
  EXPECT_EQ(again.losses, actual.losses) << "other bits at three threads";
  EXPECT_EQ(again.parameters, actual.parameters) << "other bits at three threads";
}

// Loss of an evaluation, and the logits of a first token, of rank 0.
struct Reading {
  double loss = 0;
  std::vector<float> logits;
};

Reading read(const Training& training) {
  Reading reading;
  auto world = comm::make_local_world(mesh_of(training).world());
  std::vector<std::thread> threads;
  for (auto& transport : world) {
    threads.emplace_back([&] {
      auto backend = backend::make_backend("cpu").value();
      backend->prepare_thread();
      ThreadPool pool(1);
      State state;
      ExecutorOptions options;
      options.pool = &pool;
      options.poison = true;
      Training decoding = training;
      decoding.shape.sequence = 1;
      decoding.shape.cache = 4;
      for (const graph::Purpose purpose : {graph::Purpose::kEvaluate, graph::Purpose::kDecode}) {
        const bool evaluates = purpose == graph::Purpose::kEvaluate;
        const graph::Program program = compile_or_fail(evaluates ? training : decoding, 1, purpose);
        auto executor = Executor::create(program, state, {backend.get()}, *transport, options).value();
        fill_parameters(state, program, transport->rank());
        if (evaluates) state.start_scalars(1);
        const int context = program.layout.mesh.index(transport->rank(), graph::kCpMask);
        if (evaluates) fill_batch(*executor, training, 0, 0, context);
        executor->run_step(0).value();
        if (transport->rank() != 0) continue;
        if (evaluates) {
          reading.loss = state.find("control.scalars").as<double>()[graph::kLastLoss];
        } else {
          const TensorView logits = executor->step_buffer("logits");
          for (int64_t b = 0; b < logits.shape[0]; ++b)
            for (int64_t v = 0; v < training.vocabulary; ++v)
              reading.logits.push_back(load(logits, b * logits.shape.last() + v));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reading;
}

TEST_P(CpuLayouts, EvaluatesAndDecodesAsOneRank) {
  const Training one = one_rank();
  const Reading expected = read(one), actual = read(laid_out(one));
  const double bound = exact() ? 1e-5 : 3e-2;
  EXPECT_GT(expected.loss, 1);
  EXPECT_NEAR(actual.loss, expected.loss, bound * expected.loss);
  ASSERT_EQ(actual.logits.size(), expected.logits.size());
  for (size_t i = 0; i < expected.logits.size(); ++i)
    EXPECT_NEAR(actual.logits[i], expected.logits[i], bound * 3) << i;
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuLayouts, ::testing::ValuesIn(cases()), [](const auto& test) {
  return test.param.model.name + "_" + test.param.layout.name + "_" +
         std::string(graph::name_of(test.param.precision));
});

}  // namespace
}  // namespace ingot::runtime
