// What a call of parallel_for costs: with workers that spin, and with workers that sleep.
#include <chrono>
#include <thread>
#include <vector>

#include "base/bench_report.h"
#include "base/clock.h"
#include "base/thread_pool.h"

namespace ingot {
namespace {

double call_ns(ThreadPool* pool, int64_t tiles, int calls) {
  const int64_t start = monotonic_ns();
  for (int i = 0; i < calls; ++i) pool->parallel_for(tiles, [](int64_t, int) {});
  return static_cast<double>(monotonic_ns() - start) / calls;
}

Result<int> run(BenchReport& report) {
  constexpr double kBarNs = 1000;
  ThreadPool pool(2);
  std::vector<double> spinning, sleeping;
  for (int i = 0; i < 101; ++i) spinning.push_back(call_ns(&pool, 2, 500));
  for (int i = 0; i < 51; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    sleeping.push_back(call_ns(&pool, 2, 1));
  }
  report.add("parallel_for, 2 threads, workers spin", median(spinning), "ns a call", kBarNs, Better::kLower);
  report.add("parallel_for, 2 threads, workers sleep", median(sleeping), "ns a call");
  return report.finish();
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) { return ingot::run_bench(argc, argv, ingot::run); }
