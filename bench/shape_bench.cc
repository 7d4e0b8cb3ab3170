// The share of the machine's matrix peak that a training step reaches for each shape that `ingot train` may
// choose, beside the number that the choice is made with (train/resolve.cc). Shapes up to 768 wide: wider
// ones take minutes and are as efficient.

#include <algorithm>

#include "backend/cpu/kernels/ceiling.h"
#include "base/bench_report.h"
#include "cost/flops.h"
#include "spec/config.h"
#include "train/resolve.h"

namespace ingot {
namespace {

constexpr int64_t kWidest = 768;
// Predicted times rest on these numbers; a machine at half of them needs a row of its own.
constexpr double kLeastOfTable = 0.6;

spec::LoadedSpec configuration(const train::ShapeRow& row) {
  return spec::parse_spec(fmt::format(R"(
[model]
family = "llama"
vocab_size = 4096
hidden_size = {}
num_hidden_layers = {}
num_attention_heads = {}
tie_word_embeddings = true
[data]
train = "none"
seq_len = 256
[train]
global_batch_tokens = 8192
train_steps = 10
)",
                                      row.hidden, row.layers, row.heads),
                          "shape_bench", {})
      .value();
}

Result<double> efficiency(const train::ShapeRow& row, const train::MachineFacts& machine,
                          backend::cpu::Ceiling& ceiling) {
  INGOT_TRY(const train::Resolution resolution,
            train::resolve(configuration(row), machine, {.train_tokens = 1 << 20, .vocab_size = 4096}));
  const train::ResolvedRun& run = resolution.run;
  INGOT_TRY(train::RunPrograms programs, train::compile_programs(run));
  INGOT_TRY(const std::unique_ptr<train::Session> session, train::Session::create(run, std::move(programs)));
  const double before = ceiling.sample();
  INGOT_TRY(const double seconds, session->measure_step(0.5));
  const double peak = (before + ceiling.sample()) / 2;
  const double flops = cost::flops_per_token(run.spec.model, run.seq_len(), cost::FlopConvention::kMfu) *
                       static_cast<double>(run.tokens_per_step());
  return flops / seconds / peak;
}

Result<int> run(BenchReport& report) {
  train::MachineFacts machine;
  machine.threads = available_threads();
  machine.fast_bf16 = backend::cpu::has_avx512_bf16();
  ThreadPool pool(machine.threads, backend::cpu::flush_denormals);
  INGOT_TRY(const std::unique_ptr<backend::cpu::Ceiling> ceiling,
            backend::cpu::Ceiling::create(backend::cpu::Cpu{pool},
                                          machine.fast_bf16 ? tensor::DType::kBF16 : tensor::DType::kF32));
  (void)ceiling->measure(2);
  for (const train::ShapeRow& row : train::shape_rows()) {
    if (row.hidden > kWidest) continue;
    INGOT_TRY(const double measured, efficiency(row, machine, *ceiling));
    report.note(
        fmt::format("{} layers, {} wide: chosen with {:.2f}", row.layers, row.hidden, row.efficiency));
    report.add(fmt::format("shape {}x{} mfu", row.layers, row.hidden), measured, "of peak",
               kLeastOfTable * row.efficiency);
  }
  return report.finish();
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  ingot::BenchReport report(argc, argv);
  const auto code = ingot::run(report);
  if (!code) {
    report.note(code.error().message);
    return 1;
  }
  return *code;
}
