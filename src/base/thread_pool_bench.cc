// What a call of parallel_for costs: with workers that spin, and with workers that sleep.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"

namespace {

double median_ns(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double call_ns(ingot::ThreadPool* pool, int64_t tiles, int calls) {
  const int64_t start = ingot::monotonic_ns();
  for (int i = 0; i < calls; ++i) pool->parallel_for(tiles, [](int64_t, int) {});
  return static_cast<double>(ingot::monotonic_ns() - start) / calls;
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc > 1 && std::string_view(argv[1]) == "--check";
  ingot::ThreadPool pool(2);
  std::vector<double> spinning, sleeping;
  for (int i = 0; i < 101; ++i) spinning.push_back(call_ns(&pool, 2, 500));
  for (int i = 0; i < 51; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    sleeping.push_back(call_ns(&pool, 2, 1));
  }
  constexpr double kBarNs = 1000;
  const double hot_ns = median_ns(spinning);
  fmt::print("parallel_for, 2 threads, 2 empty tiles: {:.0f} ns a call when workers spin (bar {:.0f})\n",
             hot_ns, kBarNs);
  fmt::print("parallel_for, 2 threads, 2 empty tiles: {:.0f} ns a call when workers sleep\n",
             median_ns(sleeping));
  return check && hot_ns > kBarNs ? 1 : 0;
}
