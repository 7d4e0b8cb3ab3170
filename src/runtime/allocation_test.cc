// Between its start and its end a step allocates nothing. Every operator new of this test binary is counted,
// per thread.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "runtime/models_for_tests.h"

namespace {
thread_local int64_t allocations = 0;
}  // namespace

// The sanitizers bring their own operator new. Not inlined: g++ would see malloc beside delete and complain.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace ingot::runtime {
namespace {

TEST(Allocation, AStepAllocatesNothing) {
  struct Sharing {
    int zero_stage = 0, determinism_groups = 0;
  };
  for (const Sharing& sharing : {Sharing{}, Sharing{3, 0}, Sharing{1, 4}})
    for (const Overlap overlap : {Overlap::kEarly, Overlap::kLate, Overlap::kBeside}) {
      Training training;
      training.zero_stage = sharing.zero_stage;
      training.determinism_groups = sharing.determinism_groups;
      training.build = family_models()[3].build;
      training.tp = 2;
      training.dp = 2;
      training.steps = 3;
      training.lazy = overlap == Overlap::kLate;
      training.beside = overlap == Overlap::kBeside;
      training.recompute = graph::Recompute::kSelective;
      int64_t before[4] = {}, in_step[4] = {};
      training.before_step = [&](Executor&, int, int rank) { before[rank] = allocations; };
      training.after_step = [&](Executor&, State&, int, int rank) {
        in_step[rank] += allocations - before[rank];
      };
      ASSERT_EQ(train(training).error, "");
      for (const int64_t count : in_step) EXPECT_EQ(count, 0);
    }
}

}  // namespace
}  // namespace ingot::runtime
