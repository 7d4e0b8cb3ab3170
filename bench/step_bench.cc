// A whole training step of GPT-2 124M (T 1024, B 4, bf16 where the machine has it) against the matrix peak of
// the machine, sampled all through the run; and the memory that was planned beside what was used.

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/ceiling.h"
#include "base/bench_report.h"
#include "base/clock.h"
#include "base/units.h"
#include "bench_session.h"
#include "cost/flops.h"
#include "spec/config.h"

namespace ingot {
namespace {

constexpr double kSampleEverySeconds = 0.7;

spec::LoadedSpec configuration(const std::string& precision, int64_t micro_batches) {
  return spec::parse_spec(fmt::format(R"(
[run]
precision = "{}"
[model]
family = "gpt2"
vocab_size = 50304
n_embd = 768
n_layer = 12
n_head = 12
n_positions = 1024
resid_pdrop = 0.0
embd_pdrop = 0.0
attn_pdrop = 0.0
[data]
train = "none"
seq_len = 1024
[train]
global_batch_size = {}
micro_batch_size = 4
train_steps = 10
)",
                                      precision, 4 * micro_batches),
                          "step_bench", {})
      .value();
}

struct Measured {
  std::vector<double> step_seconds;
  std::vector<double> peaks;  // FLOP/s
};

// Steps with the ceiling sampled between instructions; its time is taken out.
Result<Measured> measure(train::Session& session, backend::cpu::Ceiling& ceiling, int steps) {
  Measured measured;
  double sampling_seconds = 0;
  int64_t sampled_ns = monotonic_ns();
  session.set_observer([&](const graph::Invocation&, const graph::Instruction&, int64_t, int64_t end_ns) {
    if (static_cast<double>(end_ns - sampled_ns) * 1e-9 < kSampleEverySeconds) return;
    const int64_t begin = monotonic_ns();
    measured.peaks.push_back(ceiling.sample());
    sampled_ns = monotonic_ns();
    sampling_seconds += static_cast<double>(sampled_ns - begin) * 1e-9;
  });
  for (int i = 0; i < steps; ++i) {
    sampling_seconds = 0;
    const int64_t begin = monotonic_ns();
    INGOT_TRY_VOID(session.run_made_up_step());
    measured.step_seconds.push_back(static_cast<double>(monotonic_ns() - begin) * 1e-9 - sampling_seconds);
  }
  return measured;
}

void report_memory(BenchReport& report, const train::Session& session, int64_t before,
                   int64_t peak_with_ceiling) {
  const graph::MemoryTotals& memory = session.programs()[0].train->memory;
  report.note(fmt::format("planned {}: state {}, derived {}, step {}, input {}, slots {}, scratch {}",
                          format_bytes(session.planned_bytes()), format_bytes(memory.state),
                          format_bytes(memory.derived), format_bytes(memory.step), format_bytes(memory.input),
                          format_bytes(memory.slots), format_bytes(memory.scratch)));
  const int64_t used = peak_with_ceiling - before;
  const auto over = static_cast<double>(used - session.planned_bytes()) / (1 << 20);
  const double allowed = 64 + 0.05 * static_cast<double>(session.planned_bytes()) / (1 << 20);
  report.add("gpt2-124m peak resident minus plan", over, "MiB", allowed, Better::kLower);
}

Result<int> run(BenchReport& report) {
  const auto& words = report.arguments();
  const bool fp32 =
      std::find(words.begin(), words.end(), "fp32") != words.end() || !backend::cpu::has_avx512_bf16();
  const auto dtype = fp32 ? tensor::DType::kF32 : tensor::DType::kBF16;
  const spec::LoadedSpec loaded = configuration(fp32 ? "fp32" : "bf16", 1);
  train::MachineFacts machine = machine_facts();
  machine.fast_bf16 = !fp32;
  ThreadPool pool(machine.threads, backend::cpu::flush_denormals);
  INGOT_TRY(const std::unique_ptr<backend::cpu::Ceiling> ceiling,
            backend::cpu::Ceiling::create(backend::cpu::Cpu{pool}, dtype));
  for (const auto& entry : ceiling->measure(3))
    report.note(fmt::format("  peak {:<28} {:>8.1f} GFLOP/s", entry.name, entry.flops_per_second * 1e-9));
  const int64_t before = resident_bytes();
  INGOT_TRY(const std::unique_ptr<train::Session> session, open_session(loaded, machine, 50304));
  INGOT_TRY_VOID(session->run_made_up_step());
  INGOT_TRY(const Measured measured, measure(*session, *ceiling, 3));
  const double tokens = static_cast<double>(session->run().tokens_per_step());
  const double flops =
      cost::flops_per_token(session->run().spec.model, 1024, cost::FlopConvention::kMfuCausal) * tokens;
  const double peak = median(measured.peaks), seconds = median(measured.step_seconds);
  report.note(fmt::format(
      "step {:.2f} s (of {}), {:.0f} tokens/s, peak {:.1f} GFLOP/s (median of {} samples)", seconds,
      measured.step_seconds.size(), tokens / seconds, peak * 1e-9, measured.peaks.size()));
  report.add(fmt::format("gpt2-124m {} mfu_causal", fp32 ? "fp32" : "bf16"), flops / seconds / peak,
             "of peak", 0.65);
  report_memory(report, *session, before, peak_resident_bytes());
  return report.finish();
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) { return ingot::run_bench(argc, argv, ingot::run); }
