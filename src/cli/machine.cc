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

// One number, FLOP/s. Keyed by processor, threads and type, so that a file that was carried elsewhere is not
// believed.
std::string kept_path(int threads, DType dtype) {
  const std::string key = fmt::format("{} x{} {}", processor_name(), threads, tensor::name_of(dtype));
  return fmt::format("{}/machine-{}.txt", cache_folder(), hash_hex(hash64(key)));
}

bool read_kept(const std::string& path, double& flops_per_second) {
  std::ifstream in(path);
  return static_cast<bool>(in >> flops_per_second) && flops_per_second > 0;
}

Result<double> measure(const backend::cpu::Cpu& cpu, DType dtype) {
  constexpr int kRepetitions = 1;
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

Result<Machine> find_machine(int threads, std::optional<spec::Precision> precision, bool measured) {
  Machine machine;
  train::MachineFacts& facts = machine.facts;
  facts.threads = threads > 0 ? threads : available_threads();
  facts.fast_bf16 = backend::cpu::has_avx512_bf16();
  facts.available_bytes = available_memory_bytes();
  machine.description =
      fmt::format("{} core{}{}, {} free", facts.threads, facts.threads == 1 ? "" : "s",
                  facts.fast_bf16 ? ", AVX-512 BF16" : "", format_bytes(facts.available_bytes));
  if (!measured) return machine;
  const bool bf16 = precision ? *precision == spec::Precision::kBf16 : facts.fast_bf16;
  const DType dtype = bf16 ? DType::kBF16 : DType::kF32;
  double& rate = bf16 ? facts.bf16_flops_per_second : facts.f32_flops_per_second;
  const std::string path = kept_path(facts.threads, dtype);
  std::string how = "measured earlier";
  if (!read_kept(path, rate)) {
    const int64_t begin = monotonic_ns();
    ThreadPool pool(facts.threads, backend::cpu::flush_denormals);
    INGOT_TRY(rate, measure(backend::cpu::Cpu{pool}, dtype));
    // A cache that cannot be written costs a second at the next start, nothing else.
    const bool kept = make_directories(cache_folder()).has_value() &&
                      write_file_atomically(path, fmt::format("{}\n", rate)).has_value();
    how = fmt::format("{:.1f} s{}", static_cast<double>(monotonic_ns() - begin) * 1e-9,
                      kept ? fmt::format(", kept in {}", cache_folder()) : "");
  }
  machine.description +=
      fmt::format("; measured {:.0f} GFLOP/s {} ({})", rate * 1e-9, bf16 ? "bf16" : "fp32", how);
  return machine;
}

std::function<double()> peak_sampler(graph::Precision precision, int threads) {
  struct Sampler {
    std::unique_ptr<ThreadPool> pool;
    std::unique_ptr<Ceiling> ceiling;
  };
  auto sampler = std::make_shared<Sampler>();
  const DType dtype = precision == graph::Precision::kBF16 ? DType::kBF16 : DType::kF32;
  return [sampler, dtype, threads]() -> double {
    if (!sampler->pool) {
      sampler->pool = std::make_unique<ThreadPool>(threads, backend::cpu::flush_denormals);
      auto ceiling = Ceiling::create(backend::cpu::Cpu{*sampler->pool}, dtype);
      if (!ceiling) return 0;
      sampler->ceiling = std::move(ceiling).value();
      (void)sampler->ceiling->measure(1);
    }
    return sampler->ceiling ? sampler->ceiling->sample() : 0;
  };
}

}  // namespace ingot::cli
