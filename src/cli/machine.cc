#include "cli/machine.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "backend/cpu/kernels/ceiling.h"
#include "base/bench_report.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/units.h"

namespace ingot::cli {
namespace {

using backend::cpu::Ceiling;
using tensor::DType;

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread starts
  return value == nullptr ? "" : value;
}

// One line: bf16 and f32 FLOP/s. Keyed by processor and threads, so a file that was carried elsewhere is not
// believed.
std::string kept_path(int threads) {
  return fmt::format("{}/machine-{}.txt", cache_folder(),
                     hash_hex(hash64(fmt::format("{} x{}", processor_name(), threads))));
}

bool read_kept(const std::string& path, train::MachineFacts& facts) {
  std::ifstream in(path);
  double bf16 = 0, f32 = 0;
  if (!(in >> bf16 >> f32) || f32 <= 0) return false;
  facts.bf16_flops_per_second = bf16;
  facts.f32_flops_per_second = f32;
  return true;
}

Result<double> measure(const backend::cpu::Cpu& cpu, DType dtype) {
  constexpr int kRepetitions = 2;
  INGOT_TRY(const std::unique_ptr<Ceiling> ceiling, Ceiling::create(cpu, dtype));
  double best = 0;
  for (const auto& entry : ceiling->measure(kRepetitions)) best = std::max(best, entry.flops_per_second);
  return best;
}

}  // namespace

std::string cache_folder() {
  if (const std::string own = environment("INGOT_CACHE"); !own.empty()) return own;
  if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/ingot";
  const std::string home = environment("HOME");
  return (home.empty() ? "/tmp" : home) + "/.cache/ingot";
}

Result<Machine> find_machine(int threads) {
  Machine machine;
  train::MachineFacts& facts = machine.facts;
  facts.threads = threads > 0 ? threads : available_threads();
  facts.fast_bf16 = backend::cpu::has_avx512_bf16();
  facts.available_bytes = available_memory_bytes();
  const std::string path = kept_path(facts.threads);
  std::string how;
  if (read_kept(path, facts)) {
    how = "measured earlier";
  } else {
    const int64_t begin = monotonic_ns();
    ThreadPool pool(facts.threads, backend::cpu::flush_denormals);
    const backend::cpu::Cpu cpu{pool};
    if (facts.fast_bf16) {
      INGOT_TRY(facts.bf16_flops_per_second, measure(cpu, DType::kBF16));
    }
    INGOT_TRY(facts.f32_flops_per_second, measure(cpu, DType::kF32));
    const double seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
    // A cache that cannot be written costs a second at the next start, nothing else.
    const bool kept = make_directories(cache_folder()).has_value() &&
                      write_file_atomically(path, fmt::format("{} {}\n", facts.bf16_flops_per_second,
                                                              facts.f32_flops_per_second))
                          .has_value();
    how = fmt::format("measured in {:.1f} s{}", seconds,
                      kept ? fmt::format(", kept in {}", cache_folder()) : "");
  }
  const std::string rate =
      facts.fast_bf16 ? fmt::format("{:.0f} GFLOP/s bf16, {:.0f} fp32", facts.bf16_flops_per_second * 1e-9,
                                    facts.f32_flops_per_second * 1e-9)
                      : fmt::format("{:.0f} GFLOP/s fp32", facts.f32_flops_per_second * 1e-9);
  machine.description =
      fmt::format("{} core{}{}, {} free; {} ({})", facts.threads, facts.threads == 1 ? "" : "s",
                  facts.fast_bf16 ? ", AVX-512 BF16" : "", format_bytes(facts.available_bytes), rate, how);
  return machine;
}

std::function<double()> peak_sampler(graph::Precision precision, int threads) {
  struct Sampler {
    explicit Sampler(int count) : pool(count, backend::cpu::flush_denormals) {}
    ThreadPool pool;
    std::unique_ptr<Ceiling> ceiling;
  };
  auto sampler = std::make_shared<Sampler>(threads);
  const DType dtype = precision == graph::Precision::kBF16 ? DType::kBF16 : DType::kF32;
  auto ceiling = Ceiling::create(backend::cpu::Cpu{sampler->pool}, dtype);
  if (!ceiling) return {};
  sampler->ceiling = std::move(ceiling).value();
  (void)sampler->ceiling->measure(1);
  return [sampler] { return sampler->ceiling->sample(); };
}

}  // namespace ingot::cli
