#include "launch/rank_side.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace ingot::launch {
namespace {

constexpr const char* kBoardVariable = "INGOT_BOARD";

// Where a launcher binds its ranks to nothing, all would compute on all cores.
Cpus own_share(const Place& place) {
  Cpus allowed = allowed_cpus();
  if (place.local_world <= 1 || static_cast<int>(allowed.size()) < online_cpus()) return {};
  return share_cpus(allowed, place.local_world)[static_cast<size_t>(place.local_rank)];
}

Result<Rank> watched_rank(const Place& place, const char* board) {
  int descriptor = -1;
  (void)std::from_chars(board, board + std::char_traits<char>::length(board), descriptor);
  INGOT_TRY(Board own, Board::open(descriptor));
  if (place.local_rank >= own.ranks())
    return invalid(fmt::format("{} has pages for {} ranks, this is local rank {}", kBoardVariable,
                               own.ranks(), place.local_rank));
  return Rank{.side = RankSide{place, std::move(own), place.local_rank}, .result = std::nullopt};
}

// A folder for the socket at which the ranks meet; gone with its owner.
class MeetingFolder {
 public:
  static Result<MeetingFolder> create() {
    std::error_code failed;
    const std::filesystem::path base = std::filesystem::temp_directory_path(failed);
    std::string pattern = (failed ? std::filesystem::path("/tmp") : base) / "ingot-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr)
      return io_error("cannot make a folder for the ranks to meet in: " + pattern);
    return MeetingFolder(pattern);
  }
  MeetingFolder(MeetingFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  MeetingFolder& operator=(MeetingFolder&&) = delete;
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;
  ~MeetingFolder() {
    if (!path_.empty()) (void)remove_all(path_);
  }
  std::string address() const { return path_ + "/meet"; }

 private:
  explicit MeetingFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Command command_of(const LocalStart& start, int rank, const Cpus& cpus, const Board& board,
                   const std::string& address) {
  Command command{.words = start.words, .environment = start.environment};
  const std::pair<const char*, std::string> words[] = {
      {"INGOT_RANK", fmt::format("{}", rank)},
      {"INGOT_WORLD", fmt::format("{}", start.ranks)},
      {"INGOT_LOCAL_RANK", fmt::format("{}", rank)},
      {"INGOT_LOCAL_WORLD", fmt::format("{}", start.ranks)},
      {"INGOT_ADDRESS", address},
      {kBoardVariable, fmt::format("{}", board.descriptor())}};
  for (const auto& [name, value] : words) command.environment.push_back(fmt::format("{}={}", name, value));
  if (rank > 0) command.output = log_path(start.log_folder, rank);
  command.cpus = cpus;
  command.kept_descriptor = board.descriptor();
  return command;
}

}  // namespace

Result<Rank> become_rank(const Place& place, const Environment& environment, const AgentVoice& voice) {
  if (const char* board = environment(kBoardVariable)) return watched_rank(place, board);
  AgentOptions options{
      .world = place.world, .ranks = {place.rank}, .node = place.node, .watch_address = {}, .voice = voice};
  if (!place.address.empty()) {
    INGOT_TRY(options.watch_address, watch_address(place.address));
  }
  INGOT_TRY(Board board, Board::create(1));
  AgentSignals signals;
  std::optional<Process> child;
  INGOT_TRY(const bool in_child, Process::fork_self(own_share(place), &child));
  if (in_child) return Rank{.side = RankSide{place, std::move(board), 0}, .result = std::nullopt};
  std::vector<Process> one;
  one.push_back(std::move(*child));
  return Rank{.side = std::nullopt, .result = watch_ranks(options, board, std::move(one), signals)};
}

Result<AgentResult> run_local(const LocalStart& start, const AgentVoice& voice) {
  INGOT_TRY_VOID(make_directories(start.log_folder));
  INGOT_TRY(const MeetingFolder folder, MeetingFolder::create());
  INGOT_TRY(const Board board, Board::create(start.ranks));
  AgentSignals signals;
  AgentOptions options{.world = start.ranks,
                       .ranks = {},
                       .node = node_name(process_environment()),
                       .watch_address = {},
                       .voice = voice};
  const std::vector<Cpus> shares = share_cpus(allowed_cpus(), start.ranks);
  std::vector<Process> processes;
  for (int rank = 0; rank < start.ranks; ++rank) {
    options.ranks.push_back(rank);
    auto process =
        Process::start(command_of(start, rank, shares[static_cast<size_t>(rank)], board, folder.address()));
    if (!process) {
      for (const Process& started : processes) started.signal(SIGKILL);
      return std::move(process).take_error();
    }
    processes.push_back(std::move(*process));
  }
  return watch_ranks(options, board, std::move(processes), signals);
}

std::string log_path(const std::string& folder, int rank) {
  return fmt::format("{}/rank-{:04}.log", folder, rank);
}

}  // namespace ingot::launch
