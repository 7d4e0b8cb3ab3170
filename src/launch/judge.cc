#include "launch/judge.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

namespace ingot::launch {
namespace {

constexpr int kFault = 4;
constexpr int kNoWarning = -2;

}  // namespace

Judge::Judge(int world, std::string own_node) : own_node_(std::move(own_node)) {
  ranks_.resize(static_cast<size_t>(world));
}

void Judge::see(const RankView& view, int64_t now_ns) {
  if (view.rank < 0 || view.rank >= static_cast<int>(ranks_.size())) return;
  Known& known = ranks_[static_cast<size_t>(view.rank)];
  known.view = view;
  known.view.ended = known.ending.has_value();
  known.heard_ns = now_ns;
}

std::string Judge::name(int rank) const {
  const RankView& view = ranks_[static_cast<size_t>(rank)].view;
  return view.rank >= 0 ? name_of(view) : fmt::format("rank {}", rank);
}

void Judge::blame_ending(int rank, const Ending& ending) {
  const RankView& view = ranks_[static_cast<size_t>(rank)].view;
  const std::string when = view.step > 0 ? fmt::format(" in step {}", view.step) : "";
  std::string sentence = fmt::format("{} {}{}", name(rank), describe(ending), when);
  if (ending.signal == SIGKILL) sentence += "; if nobody did that, memory ran out (dmesg says so)";
  verdict_ = Verdict{ending.signal != 0 ? kFault : ending.code, rank, false, sentence};
}

void Judge::see_ended(int rank, const Ending& ending, int64_t now_ns) {
  Known& known = ranks_[static_cast<size_t>(rank)];
  if (known.ending) return;
  known.ending = ending;
  known.view.ended = true;
  ++ended_;
  if (ending.in_order() || verdict_) return;
  if (ending.signal == 0 && ending.code == kFault) {
    if (gave_up_ < 0) {
      gave_up_ = rank;
      gave_up_ns_ = now_ns;
    }
    return;
  }
  blame_ending(rank, ending);
}

void Judge::see_lost(const std::vector<int>& ranks, int64_t) {
  std::vector<int> running;
  for (const int rank : ranks) {
    if (!ranks_[static_cast<size_t>(rank)].ending) running.push_back(rank);
  }
  if (running.empty() || verdict_) return;
  verdict_ = Verdict{
      kFault, running.front(), false,
      fmt::format("the process that watches {} is gone, and its rank with it", name(running.front()))};
}

std::vector<RankView> Judge::views(int64_t now_ns) const {
  std::vector<RankView> views;
  for (const Known& known : ranks_) {
    views.push_back(known.view);
    if (known.view.rank >= 0) views.back().report_age_ns = now_ns - known.heard_ns;
  }
  return views;
}

std::optional<std::string> Judge::new_warning(int64_t now_ns) {
  if (verdict_) return std::nullopt;
  const std::optional<Stuck> stuck = find_stuck(views(now_ns), 1, own_node_);
  if (!stuck) warned_ = kNoWarning;
  if (!stuck || warned_ == stuck->rank) return std::nullopt;
  warned_ = stuck->rank;
  return stuck->sentence;
}

const std::optional<Verdict>& Judge::verdict(int64_t now_ns) {
  if (verdict_) return verdict_;
  if (gave_up_ < 0) {
    if (const auto stuck = find_stuck(views(now_ns), 2, own_node_))
      verdict_ = Verdict{kFault, stuck->rank, true, stuck->sentence};
    return verdict_;
  }
  // Those that have given up were as near to their limit as others still are.
  if (const auto stuck = find_stuck(views(now_ns), 1, own_node_);
      stuck && (stuck->rank < 0 || !ranks_[static_cast<size_t>(stuck->rank)].ending)) {
    verdict_ = Verdict{kFault, stuck->rank, true, stuck->sentence};
  } else if (now_ns - gave_up_ns_ >= kPatienceNs || all_ended()) {
    blame_ending(gave_up_, {.code = kFault});
  }
  return verdict_;
}

int Judge::code_of_all() const {
  int code = 0;
  for (const Known& known : ranks_) code = std::max(code, known.ending ? known.ending->code : 0);
  return code;
}

}  // namespace ingot::launch
