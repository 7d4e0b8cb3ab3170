// Kernels that reach for bytes which are not their operands are caught where the build has the address
// sanitizer.
#include "runtime/arena_guard.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/models_for_tests.h"

namespace ingot::runtime {
namespace {

enum class Fault : uint8_t { kNone, kReadsPastAnInput, kWritesPastAnOutput, kReadsWhatThePreviousOneRead };

struct Reach {
  Fault fault = Fault::kNone;
  backend::Backend::Bound honest;
  const volatile std::byte** previous = nullptr;
};

// A reference kernel, and then the fault.
void run_and_reach(const backend::KernelArgs& args, void* state) {
  const Reach& reach = *static_cast<const Reach*>(state);
  reach.honest.kernel(args, reach.honest.state);
  const TensorView& in = args.inputs.front();
  const TensorView& out = args.outputs.back();
  switch (reach.fault) {
    case Fault::kNone:
      break;
    case Fault::kReadsPastAnInput:
      (void)static_cast<std::byte>(in.as<const volatile std::byte>()[in.bytes()]);
      break;
    case Fault::kWritesPastAnOutput:
      out.as<volatile std::byte>()[out.bytes()] = std::byte{1};
      break;
    case Fault::kReadsWhatThePreviousOneRead:
      if (*reach.previous != nullptr) (void)static_cast<std::byte>(**reach.previous);
      *reach.previous = in.as<const volatile std::byte>();
      break;
  }
}

class ReachingBackend : public backend::Backend {
 public:
  explicit ReachingBackend(Fault fault) : fault_(fault) {
    auto honest = backend::make_backend("reference");
    INGOT_CHECK(honest.has_value(), "{}", honest.error().message);
    honest_ = std::move(*honest);
  }
  const graph::Target& target() const override { return honest_->target(); }
  Result<Bound> bind(const graph::Graph& graph, const graph::Node& node) override {
    INGOT_TRY(const Bound honest, honest_->bind(graph, node));
    reaches_.push_back(std::make_unique<Reach>(Reach{fault_, honest, &previous_}));
    return Bound{run_and_reach, reaches_.back().get()};
  }

 private:
  Fault fault_;
  std::unique_ptr<backend::Backend> honest_;
  const volatile std::byte* previous_ = nullptr;
  std::vector<std::unique_ptr<Reach>> reaches_;
};

void train_one_step(Fault fault) {
  Training training;
  training.build = family_models()[2].build;
  auto world = comm::make_local_world(1);
  const graph::Program program = compile_or_fail(training, 2, graph::Purpose::kTrain);
  ReachingBackend backend(fault);
  State state;
  auto executor = Executor::create(program, state, {&backend}, *world[0], {});
  ASSERT_TRUE(executor) << executor.error().message;
  fill_parameters(state, program, 0);
  state.start_scalars(1);
  fill_batch(**executor, training, 0, 0);
  ASSERT_TRUE((*executor)->run_step(0));
  // All is open again between steps: whoever fills, saves or prints may touch it.
  for (const State::Entry& entry : state.entries(program, 0))
    EXPECT_TRUE(std::isfinite(entry.view.as<double>()[0])) << entry.parameter;
  EXPECT_GT(state.find("control.scalars").as<double>()[0], -1e300);
  fill_batch(**executor, training, 1, 0);
  ASSERT_TRUE((*executor)->find_non_finite(0));
}

TEST(ArenaGuard, HonestKernelsRun) { train_one_step(Fault::kNone); }

TEST(ArenaGuard, AKernelThatReachesBeyondItsOperandsIsCaught) {
  if (!kMemoryCloses) GTEST_SKIP() << "memory closes only where the build has the address sanitizer";
  for (const Fault fault :
       {Fault::kReadsPastAnInput, Fault::kWritesPastAnOutput, Fault::kReadsWhatThePreviousOneRead}) {
    SCOPED_TRACE(static_cast<int>(fault));
    EXPECT_DEATH(train_one_step(fault), "use-after-poison");
  }
}

}  // namespace
}  // namespace ingot::runtime
