#include "launch/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "launch/watch.h"

namespace ingot::launch {
namespace {

using Kind = WatchRecord::Kind;

constexpr int64_t kMillisecond = 1'000'000, kSecond = 1000 * kMillisecond;
constexpr int kTickMs = 100;
constexpr int64_t kReportNs = kSecond;
// Survivors of one that ended by itself, or keeps them waiting, are about to say something and to leave.
constexpr int64_t kGraceNs = kSecond / 2, kStuckGraceNs = kSecond;
// How long an agent that has lost its rank tries to reach the hub before it acts by itself.
constexpr int64_t kAloneNs = 2 * kSecond;
constexpr int64_t kConnectWarningNs = 60 * kSecond;
constexpr std::chrono::milliseconds kConnectTry{250};
constexpr int kGaveUp = 4;

class Agent {
 public:
  Agent(const AgentOptions& options, const Board& board, std::vector<Process> processes,
        AgentSignals& signals)
      : options_(options),
        board_(board),
        processes_(std::move(processes)),
        signals_(signals),
        judge_(options.world, options.node),
        reported_(processes_.size(), false),
        began_ns_(monotonic_ns()) {
    is_hub_ = std::find(options.ranks.begin(), options.ranks.end(), 0) != options.ranks.end();
  }

  AgentResult run();

 private:
  bool whole_world() const { return options_.watch_address.empty(); }
  bool all_here_ended() const {
    return std::all_of(reported_.begin(), reported_.end(), [](bool b) { return b; });
  }
  RankView view_of(size_t local, int64_t now) const;
  void wait_for_events();
  void take_signals();
  void take_endings(int64_t now);
  void report_views(int64_t now);
  void talk(int64_t now);
  void talk_as_hub(int64_t now);
  void talk_to_hub(int64_t now);
  void obey(const WatchRecord& record, int64_t now);
  void judge(int64_t now);
  void judge_without_hub(int64_t now);
  void end_world(const Verdict& verdict, int64_t now);
  void stop_listening();
  std::string run_dir() const;
  void signal_all(int number);
  void say_last_word();
  bool finished(int64_t now) const;

  const AgentOptions& options_;
  const Board& board_;
  std::vector<Process> processes_;
  AgentSignals& signals_;
  Judge judge_;
  std::vector<bool> reported_;  // by local rank: its end was taken
  bool is_hub_ = false;
  Socket listener_;
  std::vector<WatchLine> lines_;  // of the hub: one for each other agent; else at most one, to the hub
  int64_t began_ns_, heard_ns_ = 0, reported_ns_ = 0, ended_ns_ = 0, tried_ns_ = 0;
  std::string hub_node_ = "the node of rank 0";
  bool all_met_ = false;
  bool hub_lost_ = false, connect_warned_ = false, listen_warned_ = false, all_ended_ = false;
  int stop_signal_ = 0;
  int64_t kill_ns_ = 0;  // when what is left is ended; 0: not yet
  AgentResult result_;
};

RankView Agent::view_of(size_t local, int64_t now) const {
  const comm::ProgressPage& page = board_.page(static_cast<int>(local));
  RankView view;
  view.rank = options_.ranks[local];
  view.local_rank = static_cast<int32_t>(local);
  std::strncpy(view.node.data(), options_.node.c_str(), view.node.size() - 1);
  view.process = processes_[local].state();
  view.pid = processes_[local].pid();
  view.ended = reported_[local];
  constexpr auto kRelaxed = std::memory_order_relaxed;
  view.state = page.state.load(kRelaxed);
  view.step = page.step.load(kRelaxed);
  view.instruction = page.instruction.load(kRelaxed);
  view.peer = page.peer.load(kRelaxed);
  view.sequence = page.sequence.load(kRelaxed);
  const int64_t changed = page.time_ns.load(kRelaxed), beat = page.heartbeat_ns.load(kRelaxed);
  view.state_age_ns = std::max<int64_t>(0, now - (changed != 0 ? changed : began_ns_));
  if (beat != 0) view.heartbeat_age_ns = std::max<int64_t>(0, now - beat);
  view.limit_ns = page.limit_ns.load(kRelaxed);
  view.patience_ns = board_.note(static_cast<int>(local)).patience_ns.load(kRelaxed);
  std::strncpy(view.words.data(), page.said().c_str(), view.words.size() - 1);
  return view;
}

void Agent::wait_for_events() {
  std::vector<pollfd> waits = {{signals_.descriptor(), POLLIN, 0}};
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (!reported_[i]) waits.push_back({processes_[i].descriptor(), POLLIN, 0});
  }
  if (listener_.fd() >= 0) waits.push_back({listener_.fd(), POLLIN, 0});
  for (const WatchLine& line : lines_)
    waits.push_back({line.fd(), static_cast<short>(line.drained() ? POLLIN : POLLIN | POLLOUT), 0});
  (void)::poll(waits.data(), waits.size(), kTickMs);
}

void Agent::signal_all(int number) {
  for (const Process& process : processes_) process.signal(number);
}

void Agent::take_signals() {
  while (const int number = signals_.next()) {
    const bool stops = number == SIGINT || number == SIGTERM;
    if (stops && stop_signal_ != 0) {
      signal_all(SIGKILL);
      result_.by_signal = number;
      continue;
    }
    if (stops) stop_signal_ = number;
    signal_all(stops ? SIGTERM : number);
  }
}

void Agent::take_endings(int64_t now) {
  // Who was ended by a signal comes first: others that end in the same moment do so because of it.
  std::vector<std::pair<size_t, Ending>> endings;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (reported_[i]) continue;
    if (const std::optional<Ending> ending = processes_[i].ended()) endings.emplace_back(i, *ending);
  }
  std::stable_sort(endings.begin(), endings.end(), [](const auto& a, const auto& b) {
    return (a.second.signal != 0) > (b.second.signal != 0);
  });
  for (const auto& [local, ending] : endings) {
    // One that gave up was seen waiting a moment ago; its page says no more of that.
    if (ending.code != kGaveUp) judge_.see(view_of(local, now), now);
    reported_[local] = true;
    ended_ns_ = now;
    if (result_.by_signal != 0 || kill_ns_ != 0) continue;  // by our own hand
    // Told to stop before it could save: as good as stopped.
    const bool told = stop_signal_ != 0 && ending.signal == SIGTERM;
    const Ending seen = told ? Ending{.code = 3} : ending;
    if (told) {
      result_.by_signal = stop_signal_;
      signal_all(SIGKILL);
    }
    const int rank = options_.ranks[local];
    judge_.see_ended(rank, seen, now);
    if (is_hub_) continue;
    for (WatchLine& line : lines_) {
      WatchRecord record{.kind = Kind::kEnded, .rank = rank, .code = seen.code, .signal = seen.signal};
      if (seen.code != kGaveUp) record.view = view_of(local, now);
      line.send(record);
    }
  }
}

void Agent::report_views(int64_t now) {
  const bool due = now - reported_ns_ >= kReportNs;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (reported_[i]) continue;
    const RankView view = view_of(i, now);
    judge_.see(view, now);
    if (due && !is_hub_) {
      for (WatchLine& line : lines_) line.send({.kind = Kind::kView, .rank = view.rank, .view = view});
    }
  }
  if (!due) return;
  reported_ns_ = now;
  if (!is_hub_) return;
  WatchRecord alive{.kind = Kind::kAlive};
  alive.view = view_of(0, now);  // of this node
  for (WatchLine& line : lines_) line.send(alive);
}

std::string Agent::run_dir() const {
  std::string path;
  for (size_t i = 0; i < processes_.size() && path.empty(); ++i)
    path = board_.note(static_cast<int>(i)).read_run_dir();
  return path;
}

void Agent::stop_listening() {
  if (listener_.fd() < 0) return;
  listener_ = Socket();
  if (options_.watch_address.find('/') != std::string::npos) (void)::unlink(options_.watch_address.c_str());
}

void Agent::talk_as_hub(int64_t now) {
  if (listener_.fd() < 0 && !all_met_) {
    auto listener = listen_at(options_.watch_address);
    if (listener) listener_ = std::move(*listener);
    if (!listener && !listen_warned_) {
      listen_warned_ = true;
      options_.voice.warn(
          fmt::format("the ranks of other agents are not watched: {}", listener.error().message));
    }
    return;
  }
  while (listener_.fd() >= 0) {
    auto socket = accept_from(listener_);
    if (!socket || socket->fd() < 0) break;
    lines_.emplace_back(std::move(*socket));
  }
  std::erase_if(lines_, [&](WatchLine& line) {
    std::vector<WatchRecord> records;
    const bool open = line.exchange(&records);
    for (const WatchRecord& record : records) {
      if (record.rank < 0 || record.rank >= options_.world) continue;
      if (record.kind == Kind::kHello) line.ranks.push_back(record.rank);
      if (record.view.rank == record.rank) judge_.see(record.view, now);
      if (record.kind == Kind::kEnded)
        judge_.see_ended(record.rank, {.code = record.code, .signal = record.signal}, now);
    }
    if (!open) judge_.see_lost(line.ranks, now);
    return !open;
  });
  size_t met = processes_.size();
  for (const WatchLine& line : lines_) met += line.ranks.size();
  if (met == static_cast<size_t>(options_.world)) {
    all_met_ = true;  // nobody else comes, and nothing is left at the address
    stop_listening();
  }
}

void Agent::talk_to_hub(int64_t now) {
  if (lines_.empty() && !hub_lost_ && now - tried_ns_ >= 2 * kTickMs * kMillisecond) {
    tried_ns_ = now;
    auto socket = connect_to(options_.watch_address, deadline_after(kConnectTry));
    if (!socket && !connect_warned_ && now - began_ns_ > kConnectWarningNs) {
      connect_warned_ = true;
      options_.voice.warn(
          fmt::format("the agent of rank 0 is not reached, so deaths of other ranks are told late: {}",
                      socket.error().message));
    }
    if (!socket) return;
    lines_.emplace_back(std::move(*socket));
    heard_ns_ = now;
    for (size_t i = 0; i < processes_.size(); ++i) {
      WatchRecord hello{.kind = Kind::kHello, .rank = options_.ranks[i], .code = options_.world};
      hello.view = view_of(i, now);
      lines_.front().send(hello);
      const std::optional<Ending> ending = processes_[i].ended();
      if (ending)
        lines_.front().send(
            {.kind = Kind::kEnded, .rank = hello.rank, .code = ending->code, .signal = ending->signal});
    }
  }
  if (lines_.empty()) return;
  std::vector<WatchRecord> records;
  const bool open = lines_.front().exchange(&records);
  if (!records.empty()) heard_ns_ = now;
  for (const WatchRecord& record : records) obey(record, now);
  if (open) return;
  lines_.clear();
  hub_lost_ = true;
}

void Agent::obey(const WatchRecord& record, int64_t now) {
  if (record.kind == Kind::kAllEnded) all_ended_ = true;
  if (record.kind == Kind::kAlive) hub_node_ = record.view.node.data();
  if (record.kind != Kind::kVerdict || result_.verdict) return;
  result_.told = true;
  end_world({.code = record.code,
             .rank = record.rank,
             .waiting = record.signal != 0,
             .sentence = record.text.data()},
            now);
}

void Agent::talk(int64_t now) {
  if (whole_world()) return;
  is_hub_ ? talk_as_hub(now) : talk_to_hub(now);
}

void Agent::end_world(const Verdict& verdict, int64_t now) {
  result_.verdict = verdict;
  result_.code = verdict.code;
  const bool fault = verdict.code == kGaveUp, by_itself = !verdict.waiting && !fault;
  if (fault && !result_.told) {
    options_.voice.fault(verdict, run_dir());
    result_.told = true;
  }
  kill_ns_ = now + (verdict.waiting ? kStuckGraceNs : by_itself ? kGraceNs : 0);
  if (!is_hub_) return;
  WatchRecord record{
      .kind = Kind::kVerdict, .rank = verdict.rank, .code = verdict.code, .signal = verdict.waiting ? 1 : 0};
  record.set_text(verdict.sentence);
  for (WatchLine& line : lines_) line.send(record);
}

// What an agent says and does that is not the hub: nothing, unless the hub cannot.
void Agent::judge_without_hub(int64_t now) {
  const auto lost = [&](const std::string& how) {
    return fmt::format("{} and {} do not reach each other: {}, and ranks of {} wait", options_.node,
                       hub_node_, how, options_.node);
  };
  if (hub_lost_)
    return end_world({.sentence = fmt::format("the agent of rank 0 ({}) is gone; the ranks of {} end with it",
                                              hub_node_, options_.node)},
                     now);
  const int64_t silent_ns = lines_.empty() ? 0 : now - heard_ns_;
  if (silent_ns > kSilentNs) {
    const std::string sentence = lost(fmt::format("the agent of rank 0 has not been heard for {:.1f} s",
                                                  static_cast<double>(silent_ns) / kSecond));
    if (judge_.new_warning(now)) options_.voice.warn(sentence);
    if (const auto& verdict = judge_.verdict(now)) {
      Verdict own = *verdict;
      if (own.waiting || own.code == kGaveUp) own.sentence = sentence;
      end_world(own, now);
    }
  } else if (lines_.empty() && judge_.verdict(now) && now - ended_ns_ > kAloneNs) {
    end_world(*judge_.verdict(now), now);
  }
}

void Agent::judge(int64_t now) {
  if (result_.verdict || result_.by_signal != 0) return;
  if (!is_hub_ && !whole_world()) return judge_without_hub(now);
  if (const auto warning = judge_.new_warning(now)) options_.voice.warn(*warning);
  if (const std::optional<Verdict>& verdict = judge_.verdict(now)) end_world(*verdict, now);
}

bool Agent::finished(int64_t now) const {
  if (!all_here_ended()) return false;
  if (result_.verdict || result_.by_signal != 0 || whole_world()) return true;
  if (is_hub_) return judge_.all_ended();
  if (all_ended_ || hub_lost_) return true;
  return lines_.empty() && now - ended_ns_ > kAloneNs;
}

void Agent::say_last_word() {
  if (!is_hub_ || whole_world()) return;
  if (!result_.verdict) {
    for (WatchLine& line : lines_) line.send({.kind = Kind::kAllEnded});
  }
  // The others leave when they have heard; a while later they are not waited for.
  const Deadline deadline = deadline_after(std::chrono::seconds(1));
  while (!lines_.empty() && milliseconds_until(deadline) > 0) {
    std::vector<pollfd> waits;
    for (const WatchLine& line : lines_) waits.push_back({line.fd(), POLLIN, 0});
    (void)::poll(waits.data(), waits.size(), kTickMs);
    std::erase_if(lines_, [](WatchLine& line) {
      std::vector<WatchRecord> ignored;
      return !line.exchange(&ignored);
    });
  }
}

AgentResult Agent::run() {
  for (;;) {
    const int64_t now = monotonic_ns();
    take_signals();
    take_endings(now);
    talk(now);
    report_views(now);
    judge(now);
    if (kill_ns_ != 0 && now >= kill_ns_) signal_all(SIGKILL);
    if (finished(now)) break;
    wait_for_events();
  }
  say_last_word();
  stop_listening();
  if (!result_.verdict && whole_world()) result_.code = judge_.code_of_all();
  if (!result_.verdict && !whole_world()) {
    for (Process& process : processes_) result_.code = std::max(result_.code, process.ended()->code);
  }
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Ending ending = *processes_[i].ended();
    if (options_.ranks[i] == 0 && ending.signal == 0 && ending.code == result_.code) result_.told = true;
  }
  return result_;
}

}  // namespace

struct AgentSignals::Mask {
  sigset_t set;
};

AgentSignals::AgentSignals() : before_(std::make_unique<Mask>()) {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&taken, number);
  (void)::sigprocmask(SIG_BLOCK, &taken, &before_->set);
  descriptor_ = Descriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  INGOT_CHECK(descriptor_.is_open(), "no descriptor for signals");
}

AgentSignals::~AgentSignals() { (void)::sigprocmask(SIG_SETMASK, &before_->set, nullptr); }

int AgentSignals::next() {
  signalfd_siginfo info{};
  return ::read(descriptor_.get(), &info, sizeof info) == ssize_t{sizeof info}
             ? static_cast<int>(info.ssi_signo)
             : 0;
}

AgentResult watch_ranks(const AgentOptions& options, const Board& board, std::vector<Process> processes,
                        AgentSignals& signals) {
  return Agent(options, board, std::move(processes), signals).run();
}

}  // namespace ingot::launch
