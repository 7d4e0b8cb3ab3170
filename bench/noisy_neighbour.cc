// What one foreign busy process costs: the steps of nanoGPT's small recipe alone and beside a process that
// spins, in turn, on all the cores that we have.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bench_report.h"
#include "bench_session.h"
#include "spec/config.h"

namespace ingot {
namespace {

constexpr int kPairs = 5;
constexpr double kSeconds = 1.5;

// Spins until it is killed, or for a minute if its parent dies.
pid_t start_busy_process() {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(60);
  volatile uint64_t work = 0;
  for (;;) work = work + 1;
}

void stop(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

Result<int> run(BenchReport& report) {
  INGOT_TRY(const spec::LoadedSpec loaded,
            spec::load_spec(std::string(INGOT_SOURCE_DIR) + "/configs/shakespeare-char-cpu.toml",
                            {"data.train=none"}));
  INGOT_TRY(const std::unique_ptr<train::Session> session, open_session(loaded, machine_facts(), 65));
  std::vector<double> ratios;
  for (int pair = 0; pair < kPairs; ++pair) {
    INGOT_TRY(const double alone, session->measure_step(kSeconds));
    const pid_t neighbour = start_busy_process();
    const auto beside = session->measure_step(kSeconds);
    stop(neighbour);
    if (!beside) return beside.error();
    report.note(fmt::format("pair {}: {:.2f} ms a step alone, {:.2f} beside a busy process", pair + 1,
                            alone * 1e3, *beside * 1e3));
    ratios.push_back(alone / *beside);
  }
  report.add("noisy neighbour: share of tokens/s kept", median(ratios), "of alone", 0.40);
  return report.finish();
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) { return ingot::run_bench(argc, argv, ingot::run); }
