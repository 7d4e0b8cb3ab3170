#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/fabric.h"
#include "cli/numbers.h"
#include "cli/outcome.h"
#include "comm/fabric_measure.h"
#include "launch/environment.h"
#include "launch/process.h"

namespace ingot::cli {
namespace {

constexpr Option kOptions[] = {
    {"Measures", "--comm", "", "what messages and all-reduces between ranks cost, by each algorithm", ""},
    {"Ranks", "--ranks", "N", "ranks to start here, where no launcher has started them", "2"},
    {"Ranks", "--transport", "NAME", "how they talk: local (threads of one process), ucx, mpi", "ucx"},
    {"Output", "--out", "FILE", "the fabric that collectives are chosen by", "the cache folder"},
    {"Output", "--json", "", "as JSON", ""},
};

struct Benchmark {
  std::string transport, out;
  int ranks = 2;
  bool json = false;
};

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string format_bandwidth(double bytes_per_second) {
  return fmt::format("{:.2f} GB/s", bytes_per_second * 1e-9);
}

nlohmann::ordered_json to_json(const comm::FabricMeasure& measure) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const comm::MeasuredCollective& row : measure.collectives) {
    rows.push_back({{"operation", cost::name_of(row.operation)},
                    {"bytes", row.bytes},
                    {"algorithm", row.algorithm},
                    {"piece_bytes", row.piece_bytes},
                    {"seconds", row.seconds},
                    {"predicted_seconds", row.predicted},
                    {"chosen", row.chosen}});
  }
  return {{"format_version", 1},
          {"fabric", nlohmann::ordered_json::parse(cost::to_json(measure.fabric))},
          {"collectives", std::move(rows)}};
}

void print(Console& console, const comm::FabricMeasure& measure) {
  const cost::Fabric& fabric = measure.fabric;
  const auto link = [&](const char* name, const cost::Link& one) {
    console.field(name, fmt::format("{}, {}", format_seconds(one.latency), format_bandwidth(one.bandwidth)));
  };
  if (measure.has_node) link("in a node", fabric.node);
  if (measure.has_network) link("between nodes", fabric.network);
  console.field("sums", format_bandwidth(fabric.sum_bandwidth));
  console.line("");
  console.line("      size  algorithm                    pieces    measured   predicted");
  for (const comm::MeasuredCollective& row : measure.collectives) {
    console.line(fmt::format("{:>10}  {:<26} {:>8} {:>11} {:>11}{}", format_bytes(row.bytes),
                             row.algorithm.empty() ? "in place" : row.algorithm,
                             row.piece_bytes == 0 ? "" : format_bytes(row.piece_bytes),
                             format_seconds(row.seconds),
                             row.predicted == 0 ? "" : format_seconds(row.predicted),
                             row.chosen && !row.algorithm.empty() ? "  chosen" : ""));
  }
}

// One rank of the measurement; rank 0 tells.
Result<void> measure(Console& console, const Benchmark& benchmark, comm::Transport& transport) {
  comm::MeasureOptions options;
  options.cores_of_this_rank = available_threads();
  INGOT_TRY(const cost::Fabric before, kept_fabric(benchmark.transport, {}));
  INGOT_TRY(const comm::FabricMeasure measured, comm::measure_fabric(transport, before, options));
  if (transport.rank() != 0) return {};
  print(console, measured);
  const std::string path = benchmark.out.empty() ? fabric_path(benchmark.transport) : benchmark.out;
  if (benchmark.out.empty()) INGOT_TRY_VOID(make_directories(path.substr(0, path.rfind('/'))));
  INGOT_TRY_VOID(write_file_atomically(path, cost::to_json(measured.fabric)));
  console.line("");
  console.field("written", path);
  if (benchmark.json) INGOT_TRY_VOID(print_out(to_json(measured).dump(2) + "\n"));
  return {};
}

Result<void> measure_threads(Console& console, const Benchmark& benchmark) {
  const auto world = comm::make_local_world(benchmark.ranks);
  std::vector<Result<void>> results(world.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < world.size(); ++rank)
    threads.emplace_back([&, rank] { results[rank] = measure(console, benchmark, *world[rank]); });
  for (std::thread& thread : threads) thread.join();
  for (Result<void>& result : results) INGOT_TRY_VOID(std::move(result));
  return {};
}

Result<void> measure_as(Console& console, const Benchmark& benchmark, const launch::Place& place) {
  INGOT_TRY(const std::unique_ptr<comm::Transport> transport,
            comm::join_world(benchmark.transport, place.rank, place.world, place.address));
  INGOT_TRY_VOID(measure(console, benchmark, *transport));
  return transport->leave({});
}

// Ranks 1 and further are children of this process, which is rank 0.
Result<void> measure_processes(Console& console, const Benchmark& benchmark, launch::Place place) {
  if (!place.alone()) return measure_as(console, benchmark, place);
  if (benchmark.transport == "mpi")
    return invalid("ranks over mpi are started by mpirun: mpirun -n 2 ingot bench --comm --transport mpi");
  place.world = benchmark.ranks;
  place.address = fmt::format("/tmp/ingot-bench-{}", getpid());
  std::vector<launch::Process> children;
  for (int rank = 1; rank < benchmark.ranks; ++rank) {
    std::optional<launch::Process> child;
    INGOT_TRY(const bool in_child, launch::Process::fork_self({}, &child));
    if (in_child) {
      place.rank = rank;
      return measure_as(console, benchmark, place).context(fmt::format("rank {}", rank));
    }
    children.push_back(std::move(*child));
  }
  return measure_as(console, benchmark, place);
}

Result<int> bench(const Arguments& arguments, Console& console) {
  OptionReader options(arguments);
  Benchmark benchmark;
  std::vector<std::string> names = {"ucx"};
  for (const comm::TransportRow& row : comm::all_transports())
    if (row.name != "ucx") names.emplace_back(row.name);
  benchmark.transport = options.choice("--transport", names);
  benchmark.ranks = static_cast<int>(options.integer("--ranks", 2, 1, 1024));
  benchmark.out = arguments.get("--out").value_or("");
  benchmark.json = arguments.has("--json");
  if (!arguments.has("--comm")) options.mistake("say what to measure: ingot bench --comm");
  INGOT_TRY_VOID(options.done());
  INGOT_TRY(const launch::Place place, launch::find_place(launch::process_environment()));
  if (benchmark.transport == "local") {
    INGOT_TRY_VOID(measure_threads(console, benchmark));
  } else {
    INGOT_TRY_VOID(measure_processes(console, benchmark, place));
  }
  return kDone;
}

int run(const Arguments& arguments) {
  Console console(arguments.has("--json"));
  const auto code = bench(arguments, console);
  return code ? *code : fail(console, code.error());
}

}  // namespace

Verb bench_verb() {
  return {.name = "bench",
          .summary = "Measure how fast ranks talk, for the choice of collectives.",
          .group = "Machine",
          .example = "ingot bench --comm --ranks 2",
          .input = "",
          .options = kOptions,
          .see_also = "docs/formats/fabric.md",
          .run = run};
}

}  // namespace ingot::cli
