// The share of the machine's matrix peak that a training step reaches for each shape that `ingot train` may
// choose, beside the number that the choice is made with (train/resolve.cc). Shapes up to 768 wide: wider
// ones take minutes and are as efficient.

#include "backend/cpu/kernels/ceiling.h"
#include "base/bench_report.h"
#include "base/clock.h"
#include "bench_session.h"
#include "cost/flops.h"
#include "spec/config.h"

namespace ingot {
namespace {

constexpr int64_t kWidest = 768;
constexpr int64_t kVocabulary = 4096;
constexpr int kRounds = 7;
// Predicted times rest on these numbers; a machine at half of them needs a row of its own.
constexpr double kLeastOfTable = 0.6;

spec::LoadedSpec configuration(const train::ShapeRow& row) {
  return spec::parse_spec(fmt::format(R"(
[model]
family = "llama"
vocab_size = {}
hidden_size = {}
num_hidden_layers = {}
num_attention_heads = {}
tie_word_embeddings = true
[data]
train = "none"
seq_len = 256
[train]
global_batch_tokens = 4096
train_steps = 10
)",
                                      kVocabulary, row.hidden, row.layers, row.heads),
                          "shape_bench", {})
      .value();
}

Result<double> efficiency(const train::ShapeRow& row, const train::MachineFacts& machine,
                          backend::cpu::Ceiling& ceiling) {
  INGOT_TRY(const std::unique_ptr<train::Session> session,
            open_session(configuration(row), machine, kVocabulary));
  const train::ResolvedRun& run = session->run();
  const double flops = cost::flops_per_token(run.spec.model, run.seq_len(), cost::FlopConvention::kMfu) *
                       static_cast<double>(run.tokens_per_step());
  INGOT_TRY_VOID(session->run_made_up_step());  // warms up
  std::vector<double> shares;
  for (int round = 0; round < kRounds; ++round) {
    const double before = ceiling.sample();
    const int64_t begin = monotonic_ns();
    INGOT_TRY_VOID(session->run_made_up_step());
    const double seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
    shares.push_back(flops / seconds / (0.5 * (before + ceiling.sample())));
  }
  return median(shares);
}

Result<int> run(BenchReport& report) {
  const train::MachineFacts machine = machine_facts();
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

int main(int argc, char** argv) { return ingot::run_bench(argc, argv, ingot::run); }
