#include "launch/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/hash.h"

namespace ingot::launch {
namespace {

// An address that all ranks derive from the same words; "" where there are none.
using AddressRule = Result<std::string> (*)(const Environment&, const Place&);

struct Row {
  std::string_view launcher;
  const char* mark;  // set by this launcher alone; null: its rank is the mark
  const char* rank;
  const char* world;
  const char* local_rank;   // null or not set: 0
  const char* local_world;  // null or not set: see local_world_of
  AddressRule address;
  bool nests;  // is started inside ranks of another launcher, whose words are still there
};

std::string text_of(const Environment& environment, const char* name) {
  const char* value = name != nullptr ? environment(name) : nullptr;
  return value != nullptr ? value : "";
}

bool is_set(const Environment& environment, const char* name) { return !text_of(environment, name).empty(); }

Result<int> number_of(const Environment& environment, const char* name) {
  const std::string text = text_of(environment, name);
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return invalid(fmt::format("{}={} is no number of the kind that a launcher sets", name, text));
  return value;
}

// Below the ports that the system gives out by itself; even, since the next one is taken too.
std::string port_from(std::string_view job) {
  constexpr uint64_t kFirst = 20000, kPairs = 6000;
  return fmt::format("{}", kFirst + 2 * (hash64(job) % kPairs));
}

std::string local_path(const Environment& environment, std::string_view job) {
  const std::string folder = text_of(environment, "TMPDIR");
  return fmt::format("{}/ingot-{}-{}.meet", folder.empty() ? "/tmp" : folder, ::getuid(), job);
}

Result<std::string> no_address(const Environment&, const Place&) { return std::string(); }

Result<std::string> master_address(const Environment& environment, const Place&) {
  const std::string host = text_of(environment, "MASTER_ADDR"), port = text_of(environment, "MASTER_PORT");
  if (host.empty() && port.empty()) return std::string();
  if (host.empty() || port.empty())
    return invalid(fmt::format("{} is set, {} is not: set both, to the host of rank 0 and a free port there",
                               host.empty() ? "MASTER_PORT" : "MASTER_ADDR",
                               host.empty() ? "MASTER_ADDR" : "MASTER_PORT"));
  INGOT_TRY(int number, number_of(environment, "MASTER_PORT"));
  // torchrun's own store listens at the port that it names.
  if (text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True") ++number;
  return fmt::format("{}:{}", host.find(':') != std::string::npos ? "[" + host + "]" : host, number);
}

// "348717056.0;tcp://192.0.2.2:45907;tcp6://..." is the place of mpirun, which puts rank 0 on its own host.
Result<std::string> open_mpi_address(const Environment& environment, const Place& place) {
  const std::string job = text_of(environment, "OMPI_MCA_ess_base_jobid");
  if (job.empty()) return std::string();
  if (place.local_world == place.world) return local_path(environment, "ompi-" + job);
  const std::string uri = text_of(environment, "OMPI_MCA_orte_hnp_uri");
  constexpr std::string_view kScheme = ";tcp://";
  const size_t begin = uri.find(kScheme);
  if (begin == std::string::npos) return std::string();
  const size_t host = begin + kScheme.size();
  return uri.substr(host, uri.find_first_of(",:;", host) - host) + ":" + port_from("ompi-" + job);
}

Result<std::string> slurm_address(const Environment& environment, const Place& place) {
  const std::string job =
      fmt::format("slurm-{}-{}", text_of(environment, "SLURM_JOB_ID"), text_of(environment, "SLURM_STEP_ID"));
  const std::string nodes = text_of(environment, "SLURM_STEP_NODELIST");
  if (place.local_world == place.world) return local_path(environment, job);
  return nodes.empty() ? std::string() : first_host(nodes) + ":" + port_from(job);
}

// Inner launchers first: of two whose words are there, the first one counts.
constexpr std::array kRows = {
    Row{kOwnLauncher, nullptr, "INGOT_RANK", "INGOT_WORLD", "INGOT_LOCAL_RANK", "INGOT_LOCAL_WORLD",
        no_address, true},
    Row{"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
        master_address, true},
    Row{"RANK and WORLD_SIZE", nullptr, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
        master_address, false},
    Row{"Open MPI", nullptr, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE", open_mpi_address, true},
    // In a batch script the words of a task are there too, but those of a step are not.
    Row{"Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
        slurm_address, false},
    Row{"PMI (MPICH, Intel MPI)", nullptr, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
        no_address, true},
    Row{"PMIx", nullptr, "PMIX_RANK", "INGOT_WORLD", nullptr, nullptr, no_address, true},
    Row{"Kubernetes", nullptr, "JOB_COMPLETION_INDEX", "INGOT_WORLD", nullptr, nullptr, no_address, false},
};

// World sizes that mean nothing without a rank.
constexpr std::array kWorldsOfRanks = {kRows[0], kRows[2]};

bool is_present(const Environment& environment, const Row& row) {
  return is_set(environment, row.rank) && (row.mark == nullptr || is_set(environment, row.mark));
}

Result<int> local_world_of(const Environment& environment, const Row& row) {
  if (is_set(environment, row.local_world)) return number_of(environment, row.local_world);
  if (row.launcher == "Slurm" && is_set(environment, "SLURM_NODEID")) {
    INGOT_TRY(const int node, number_of(environment, "SLURM_NODEID"));
    return std::max(1, tasks_on_node(text_of(environment, "SLURM_STEP_TASKS_PER_NODE"), node));
  }
  return 1;
}

Result<Place> read_row(const Environment& environment, const Row& row) {
  if (!is_set(environment, row.world))
    return invalid(
        fmt::format("{}={} says that this is one of many ({}), but {} is not set: set it to the number of "
                    "ranks (1: this process trains alone)",
                    row.rank, text_of(environment, row.rank), row.launcher, row.world));
  Place place;
  place.launcher = row.launcher;
  INGOT_TRY(place.rank, number_of(environment, row.rank));
  INGOT_TRY(place.world, number_of(environment, row.world));
  // Pods of an indexed Job that each train for themselves.
  if (place.world == 1 && row.launcher == "Kubernetes") return Place{};
  if (place.rank >= place.world)
    return invalid(fmt::format("{}={} is no rank of {}={} ({}): ranks go from 0 to {}", row.rank, place.rank,
                               row.world, place.world, row.launcher, place.world - 1));
  if (is_set(environment, row.local_rank)) {
    INGOT_TRY(place.local_rank, number_of(environment, row.local_rank));
  }
  INGOT_TRY(const int local_world, local_world_of(environment, row));
  place.local_world = std::max(local_world, place.local_rank + 1);
  if (place.local_rank > place.rank || place.local_world > place.world)
    return invalid(fmt::format("{}={} contradicts {}={} of {} ({})", row.local_rank, place.local_rank,
                               row.rank, place.rank, place.world, row.launcher));
  return place;
}

Result<void> check_others(const Environment& environment, const Row& chosen, const Place& place) {
  if (chosen.nests) return {};
  for (const Row& other : kRows) {
    if (other.launcher == chosen.launcher || std::string_view(other.rank) == chosen.rank) continue;
    if (!is_present(environment, other) || !is_set(environment, other.world)) continue;
    INGOT_TRY(const Place theirs, read_row(environment, other));
    if (theirs.alone() || (theirs.rank == place.rank && theirs.world == place.world)) continue;
    return invalid(fmt::format("{}={} of {}={} contradicts {}={} of {}={} ({}): unset one of the two",
                               chosen.rank, place.rank, chosen.world, place.world, other.rank, theirs.rank,
                               other.world, theirs.world, other.launcher));
  }
  return {};
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> const char* { return std::getenv(name); };  // NOLINT(concurrency-mt-unsafe)
}

std::string node_name(const Environment& environment) {
  for (const char* name : {"INGOT_NODE", "SLURMD_NODENAME"}) {
    if (is_set(environment, name)) return text_of(environment, name);
  }
  std::array<char, 256> host{};
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "this node";
}

Result<Place> find_place(const Environment& environment) {
  Place place;
  for (const Row& row : kRows) {
    if (!is_present(environment, row)) continue;
    INGOT_TRY(place, read_row(environment, row));
    if (place.alone()) break;
    INGOT_TRY_VOID(check_others(environment, row, place));
    INGOT_TRY(place.address, row.address(environment, place));
    if (is_set(environment, "INGOT_ADDRESS")) place.address = text_of(environment, "INGOT_ADDRESS");
    break;
  }
  if (place.alone()) {
    for (const Row& row : kWorldsOfRanks) {
      const std::string world = text_of(environment, row.world);
      if (!world.empty() && world != "1")
        return invalid(fmt::format("{}={} is set, {} is not: set both, or neither to train alone", row.world,
                                   world, row.rank));
    }
  }
  place.node = node_name(environment);
  return place;
}

Result<std::string> watch_address(const std::string& address) {
  if (address.find('/') != std::string::npos) return address + ".watch";
  const size_t colon = address.rfind(':');
  int port = 0;
  const char* end = address.data() + address.size();
  if (colon == std::string::npos || std::from_chars(address.data() + colon + 1, end, port).ptr != end ||
      port <= 0 || port >= 65535)
    return invalid(fmt::format("'{}' is no address: host:port, or a path with a '/' on one node", address));
  return fmt::format("{}{}", address.substr(0, colon + 1), port + 1);
}

std::string first_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t close = list.find(']', bracket);
  if (close == std::string::npos) return list.substr(0, bracket);
  const size_t number_end = list.find_first_of(",-]", bracket);
  // What stands between the bracket and the next name belongs to this one: "rack[1-2]-n[3-4]".
  const std::string rest = list.substr(close + 1);
  const bool ends = rest.empty() || rest.front() == ',';
  return list.substr(0, bracket) + list.substr(bracket + 1, number_end - bracket - 1) +
         (ends ? "" : first_host(rest));
}

int tasks_on_node(const std::string& list, int node) {
  const char* at = list.data();
  const char* end = at + list.size();
  while (at < end) {
    int tasks = 0, nodes = 1;
    at = std::from_chars(at, end, tasks).ptr;
    if (at + 2 < end && at[0] == '(' && at[1] == 'x') at = std::from_chars(at + 2, end, nodes).ptr + 1;
    if (node < nodes) return tasks;
    node -= nodes;
    ++at;  // the comma
  }
  return 0;
}

}  // namespace ingot::launch
