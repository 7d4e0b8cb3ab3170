// Our all-reduce over ucx against OpenMPI's best, which is its segmented ring over pml ucx: two ranks of one
// core, 64 MiB in huge pages, in turn in one run, each round both worlds started anew.

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "all_reduce_timing.h"
#include "base/bench_report.h"
#include "comm/comm.h"
#include "launch/process.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 2, kPairs = 7, kRounds = 15;

// ---- one of our ranks: comm_bench --rank TRANSPORT RANK ADDRESS BYTES ROUNDS FILE

Result<void> time_rank(const std::string& transport, int rank, const std::string& address, int64_t bytes,
                       int rounds, const char* file) {
  INGOT_TRY(const auto world, comm::join_world(transport, rank, kRanks, address));
  {
    INGOT_TRY(const auto group, world->group(std::vector<int>{0, 1}));
    float* data = huge_pages(bytes);
    const comm::TensorView all = {data, tensor::DType::kF32, {bytes / 4}};
    Result<void> first;
    const auto keep = [&first](Result<void> result) {
      if (first && !result) first = std::move(result);
    };
    const double seconds = median_seconds(
        rounds, [&] { keep(group->barrier({})); }, [&] { keep(group->all_reduce(all, all, {})); });
    INGOT_TRY_VOID(std::move(first));
    if (rank == 0) write_seconds(file, seconds);
    std::free(data);
  }
  return world->leave({});
}

// ---- both worlds

Result<double> run_world(const std::vector<std::vector<std::string>>& commands, const fs::path& answer) {
  std::vector<launch::Process> processes;
  for (size_t i = 0; i < commands.size(); ++i) {
    launch::Command command;
    command.words = commands[i];
    if (commands.size() == kRanks) command.cpus = {static_cast<int>(i)};
    INGOT_TRY(launch::Process process, launch::Process::start(command));
    processes.push_back(std::move(process));
  }
  const int64_t limit = monotonic_ns() + int64_t{60'000'000'000};
  for (launch::Process& process : processes) {
    std::optional<launch::Ending> ending;
    while (!(ending = process.ended())) {
      if (monotonic_ns() > limit) return io_error("a world does not end");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (!ending->in_order()) return io_error("a rank " + launch::describe(*ending));
  }
  double seconds = 0;
  std::ifstream(answer) >> seconds;
  return seconds;
}

struct Worlds {
  fs::path program, peer, folder;

  Result<double> ours(int64_t bytes, int rounds) const {
    std::vector<std::vector<std::string>> commands;
    const fs::path answer = folder / "ours";
    for (int rank = 0; rank < kRanks; ++rank)
      commands.push_back({program, "--rank", "ucx", std::to_string(rank), (folder / "meet").string(),
                          std::to_string(bytes), std::to_string(rounds), answer});
    return run_world(commands, answer);
  }
  Result<double> openmpi(int64_t bytes, int rounds) const {
    std::vector<std::string> words = {"/usr/bin/env", "mpirun", "--allow-run-as-root", "-n",
                                      std::to_string(kRanks)};
    for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
             {"pml", "ucx"},
             {"pml_ucx_tls", "any"},
             {"pml_ucx_devices", "any"},
             {"coll_tuned_use_dynamic_rules", "1"},
             {"coll_tuned_allreduce_algorithm", "5"},
             {"coll_tuned_allreduce_algorithm_segmentsize", "1048576"}}) {
      words.insert(words.end(), {"--mca", name, value});
    }
    const fs::path answer = folder / "openmpi";
    words.insert(words.end(), {peer, std::to_string(bytes), std::to_string(rounds), answer});
    return run_world({words}, answer);
  }
};

Result<void> compare(BenchReport& report, const Worlds& worlds) {
  constexpr int64_t kBytes = 64 << 20;
  std::vector<double> ratios;
  for (int pair = 0; pair < kPairs; ++pair) {
    // Who begins changes from pair to pair.
    double ours = 0, theirs = 0;
    for (const bool our_turn : {pair % 2 == 0, pair % 2 != 0}) {
      INGOT_TRY((our_turn ? ours : theirs),
                our_turn ? worlds.ours(kBytes, kRounds) : worlds.openmpi(kBytes, kRounds));
    }
    report.note(fmt::format("pair {}: {:.2f} ms ours over ucx, {:.2f} OpenMPI's segmented ring", pair + 1,
                            ours * 1e3, theirs * 1e3));
    ratios.push_back(theirs / ours);
  }
  std::sort(ratios.begin(), ratios.end());
  report.add("all_reduce 64 MiB, 2 ranks: speed over ucx", ratios[ratios.size() / 2], "of OpenMPI's best",
             0.8);
  INGOT_TRY(const double small, worlds.ours(4096, 2000));
  report.add("all_reduce 4 KiB, 2 ranks: time over ucx", small * 1e6, "us");
  return {};
}

}  // namespace
}  // namespace ingot

int main(int argc, char** argv) {
  using namespace ingot;
  if (argc == 8 && std::strcmp(argv[1], "--rank") == 0) {
    auto timed =
        time_rank(argv[2], std::atoi(argv[3]), argv[4], std::atoll(argv[5]), std::atoi(argv[6]), argv[7]);
    if (!timed) fmt::print(stderr, "{}\n", timed.error().message);
    return timed ? 0 : 1;
  }
  BenchReport report(argc, argv);
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const Worlds worlds{program, program.parent_path() / "mpi_all_reduce",
                      fs::temp_directory_path() / fmt::format("comm-bench-{}", getpid())};
  if (!fs::exists(worlds.peer)) {
    report.note("no MPI was found when this was built: nothing to compare with");
    return report.finish();
  }
  fs::create_directories(worlds.folder);
  auto compared = compare(report, worlds);
  fs::remove_all(worlds.folder);
  if (!compared) {
    report.note(compared.error().message);
    return 1;
  }
  return report.finish();
}
