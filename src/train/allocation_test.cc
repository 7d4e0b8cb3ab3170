// Between its start and its end a training step allocates nothing of ours: every call for memory of this
// process is seen, from any thread and any library, and belongs to the first frame that is no part of the C
// or C++ runtime. oneDNN may make few and small ones.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "train/small_run_for_tests.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define INGOT_INTERPOSED 1
#endif

namespace {

struct Call {
  size_t bytes = 0;
  int frames = 0;
  std::array<void*, 24> stack{};
};
constexpr size_t kMostCalls = 4096;
std::array<Call, kMostCalls> calls;
std::atomic<size_t> call_count{0};
std::atomic<bool> watching{false};

#ifdef INGOT_INTERPOSED
thread_local bool inside = false;  // the backtrace itself asked

void note(size_t bytes) {
  if (!watching.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  const size_t at = call_count.fetch_add(1);
  if (at < kMostCalls) {
    calls[at].bytes = bytes;
    calls[at].frames = ::backtrace(calls[at].stack.data(), static_cast<int>(calls[at].stack.size()));
  }
  inside = false;
}
#endif

}  // namespace

#ifdef INGOT_INTERPOSED
// Those of glibc under their own names; a definition in the program comes before them for every library.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  note(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  note(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  note(bytes);
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  note(bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

namespace ingot::train {
namespace {

constexpr const char* kOurs = "ours";

// Runtime code asks for memory because its caller did.
bool is_runtime(const std::string& file) {
  for (const char* part : {"/libc.so", "/libstdc++.so", "/libgcc_s.so", "/ld-linux", "/libm.so"})
    if (file.find(part) != std::string::npos) return true;
  return false;
}

struct Asker {
  std::string who;    // kOurs, or the name of a library
  std::string frame;  // symbol or address, for the message
};

Asker asker_of(const Call& call) {
  Dl_info own{};
  const bool know_own = ::dladdr(reinterpret_cast<void*>(&resolved), &own) != 0;
  bool past_interposer = false;
  for (int i = 0; i < call.frames; ++i) {
    Dl_info info{};
    if (::dladdr(call.stack[static_cast<size_t>(i)], &info) == 0 || info.dli_fname == nullptr) continue;
    const std::string file = info.dli_fname;
    const bool ours = know_own && info.dli_fbase == own.dli_fbase;
    // note() and the function that called it come first.
    if (!past_interposer && ours && i < 2) continue;
    past_interposer = true;
    if (is_runtime(file)) continue;
    const auto offset = static_cast<const char*>(call.stack[static_cast<size_t>(i)]) -
                        static_cast<const char*>(info.dli_fbase);
    return {ours ? kOurs : file.substr(file.rfind('/') + 1), fmt::format("{}+{:#x}", file, offset)};
  }
  return {kOurs, "unknown"};  // nobody to blame: then it is ours
}

// Calls made while `body` ran, by who asked.
template <class Body>
std::map<std::string, std::vector<Call>> calls_during(const Body& body) {
  std::array<void*, 4> primed{};
  (void)::backtrace(primed.data(), static_cast<int>(primed.size()));  // its first call loads a library
  call_count = 0;
  watching = true;
  body();
  watching = false;
  const size_t count = call_count;
  EXPECT_LT(count, kMostCalls);
  std::map<std::string, std::vector<Call>> by_asker;
  for (size_t i = 0; i < std::min(count, kMostCalls); ++i)
    by_asker[asker_of(calls[i]).who].push_back(calls[i]);
  return by_asker;
}

struct Case {
  graph::Precision precision = graph::Precision::kF32;
  int dp = 1, threads = 2;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << (one.precision == graph::Precision::kBF16 ? "bf16" : "f32") << " dp " << one.dp;
}

class TrainAllocation : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
#ifndef INGOT_INTERPOSED
    GTEST_SKIP() << "sanitizers bring their own allocator";
#endif
  }
};

TEST_P(TrainAllocation, AStepWithItsLoaderAllocatesNothing) {
  for (const std::string family : {"llama", "gpt2"}) {
    SmallRun small;
    small.family = family;
    small.precision = GetParam().precision;
    small.dp = GetParam().dp;
    small.threads = GetParam().threads;
    const SmallData data;
    auto session = make_session(small);
    train_from_start(*session, data, 2);
    constexpr int64_t kSteps = 6;
    int64_t applied = 0;
    const auto by_asker = calls_during([&] {
      for (int64_t step = 2; step < 2 + kSteps; ++step) {
        auto outcome = session->step(step, {});
        if (outcome && outcome->applied) ++applied;
      }
    });
    EXPECT_EQ(applied, kSteps);
    for (const auto& [who, list] : by_asker)
      ADD_FAILURE() << list.size() << " calls of " << who << ", the first of " << list.front().bytes
                    << " bytes at " << asker_of(list.front()).frame << " (addr2line -Cfie)";
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainAllocation,
                         ::testing::Values(Case{graph::Precision::kF32}, Case{graph::Precision::kBF16},
                                           Case{graph::Precision::kF32, 2},
                                           Case{graph::Precision::kBF16, 2}));

// The detector itself.
TEST_P(TrainAllocation, CallsOfOursAreSeenOnAnyThreadAndThroughLibraries) {
  std::string text(100, 'a');
  std::atomic<int> turn{0};
  std::thread other([&] {
    while (turn != 1) std::this_thread::yield();
    text.append(5000, 'b');
    turn = 2;
    while (turn != 3) std::this_thread::yield();
  });
  const auto by_asker = calls_during([&] {
    std::free(::strdup("by the C library"));
    turn = 1;
    while (turn != 2) std::this_thread::yield();
  });
  turn = 3;
  other.join();
  ASSERT_EQ(by_asker.count(kOurs), 1U);
  EXPECT_EQ(by_asker.size(), 1U);
  ASSERT_EQ(by_asker.at(kOurs).size(), 2U);
  EXPECT_GE(by_asker.at(kOurs).back().bytes, 5000U);
}

}  // namespace
}  // namespace ingot::train
