#include "launch/stuck.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ingot::launch {
namespace {

using comm::RankState;

// Older than this, a heartbeat of which one comes every 0.2 s is no sign of life.
constexpr int64_t kStaleNs = 1'000'000'000;

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }
std::string text_of(const std::array<char, 64>& chars) { return chars.data(); }

// Also one that gave up and left: whom it waited for still says where to look.
bool waits(const RankView& view) { return view.rank >= 0 && view.state == RankState::kWaiting; }
bool is_stopped(const RankView& view) { return !view.ended && (view.process == 'T' || view.process == 't'); }
bool shows_no_life(const RankView& view) { return !view.ended && view.heartbeat_age_ns > kStaleNs; }
bool is_silent(const RankView& view) { return !view.ended && view.report_age_ns > kSilentNs; }

// It cannot go on, whatever it was at.
bool is_disabled(const RankView& view) { return is_silent(view) || is_stopped(view) || shows_no_life(view); }
// What keeps others waiting, where it is not that it waits itself.
bool is_cause(const RankView& view) { return is_disabled(view) || !waits(view); }

std::string place_of(const RankView& view) {
  if (text_of(view.words).empty() && view.instruction < 0) return "a message";
  return text_of(view.words).empty() ? fmt::format("#{}", view.instruction) : text_of(view.words);
}

class Search {
 public:
  Search(std::span<const RankView> ranks, const std::string& own_node) : ranks_(ranks), own_node_(own_node) {}

  std::optional<Stuck> run(double limits) {
    for (const RankView& view : ranks_) disabled_ = disabled_ || (view.rank >= 0 && is_disabled(view));
    for (const RankView& view : ranks_) {
      if (!waits(view) || is_disabled(view) || view.limit_ns <= 0) continue;
      ++waiting_;
      const double waited = static_cast<double>(view.state_age_ns) / static_cast<double>(limit_of(view));
      if (waited >= limits && (longest_ == nullptr || view.state_age_ns > longest_->state_age_ns)) {
        longest_ = &view;
        waited_ = waited;
      }
    }
    if (longest_ == nullptr) return std::nullopt;
    return verdict();
  }

 private:
  const RankView* view_of(int rank) const {
    return rank >= 0 && rank < static_cast<int>(ranks_.size()) ? &ranks_[static_cast<size_t>(rank)] : nullptr;
  }

  // A save may take long, but not for a rank that will never come.
  int64_t limit_of(const RankView& view) const {
    return disabled_ && view.patience_ns > 0 ? std::min(view.limit_ns, view.patience_ns) : view.limit_ns;
  }

  // The ranks from the one that waits longest along whom each waits for: ends at one that waits for nobody,
  // or at one that was met before.
  std::vector<const RankView*> chain() const {
    std::vector<const RankView*> met;
    std::vector<bool> seen(ranks_.size());
    for (const RankView* at = longest_; at != nullptr; at = view_of(at->peer)) {
      met.push_back(at);
      const auto index = static_cast<size_t>(at - ranks_.data());
      if (seen[index]) break;
      seen[index] = true;
      if (is_cause(*at)) break;
    }
    return met;
  }

  Stuck verdict() const {
    const std::vector<const RankView*> met = chain();
    if (is_disabled(*met.back())) return blame(*met.back());
    // The chain may be of a moment that is over: a rank that cannot go on says more.
    for (bool (*sign)(const RankView&) : {is_stopped, is_silent, shows_no_life}) {
      for (const RankView& view : ranks_) {
        if (view.rank >= 0 && sign(view)) return blame(view);
      }
    }
    if (met.size() > 1 && is_cause(*met.back())) return blame(*met.back());
    const RankView* least = nullptr;
    for (const RankView& view : ranks_) {
      if (waits(view) || view.ended) continue;
      if (least == nullptr || view.sequence < least->sequence) least = &view;
    }
    return least != nullptr ? blame(*least) : blame_circle(met);
  }

  std::string waiting() const {
    return fmt::format("{} of {} rank{} wait{}", waiting_, ranks_.size(), ranks_.size() == 1 ? "" : "s",
                       waiting_ == 1 ? "s" : "");
  }

  Stuck blame(const RankView& view) const {
    const double age = seconds(longest_->state_age_ns);
    if (view.rank < 0) {
      const auto rank = static_cast<int>(&view - ranks_.data());
      return {rank, waited_,
              fmt::format("rank {} has not been heard of, and {} has waited for {:.1f} s", rank,
                          name_of(*longest_), age)};
    }
    if (is_silent(view) && text_of(view.node) != own_node_)
      return {-1, waited_,
              fmt::format("{} and {} do not reach each other: {} has not been heard for {:.1f} s, and {} has "
                          "waited in {} for {:.1f} s",
                          own_node_, text_of(view.node), name_of(view), seconds(view.report_age_ns),
                          name_of(*longest_), place_of(*longest_), age)};
    const std::string what = fmt::format("{} has not arrived at {} of step {} for {:.1f} s; {}",
                                         name_of(view), place_of(*longest_), longest_->step, age, waiting());
    return {view.rank, waited_, fmt::format("{}. {}", what, condition(view))};
  }

  // What the rank does instead.
  std::string condition(const RankView& view) const {
    const std::string last = view.instruction >= 0
                                 ? fmt::format("#{} of step {}", view.instruction, view.step)
                                 : fmt::format("step {}", view.step);
    if (view.ended) return "It has ended";
    if (is_stopped(view)) return fmt::format("It is stopped (process {}), since {}", view.pid, last);
    const double age = seconds(view.state_age_ns);
    if (shows_no_life(view))
      return fmt::format("It has shown no sign of life for {:.1f} s, since {}",
                         seconds(view.heartbeat_age_ns), last);
    switch (view.state) {
      case RankState::kStarting:
        return fmt::format("It has been starting for {:.1f} s", age);
      case RankState::kLeaving:
        return "It is leaving";
      case RankState::kComputing:
      case RankState::kWaiting:
        break;
    }
    return fmt::format("It has been computing for {:.1f} s, since {}", age, last);
  }

  // All live and wait. Where some wait for ranks of another node, the messages between the two are lost.
  Stuck blame_circle(const std::vector<const RankView*>& met) const {
    const double age = seconds(longest_->state_age_ns);
    for (const RankView* view : met) {
      const RankView* peer = view_of(view->peer);
      if (peer == nullptr || text_of(view->node) == text_of(peer->node)) continue;
      return {-1, waited_,
              fmt::format("{} and {} do not reach each other: all ranks live, and {} has waited in {} for {} "
                          "for {:.1f} s",
                          text_of(view->node), text_of(peer->node), name_of(*view), place_of(*view),
                          name_of(*peer), seconds(view->state_age_ns))};
    }
    std::string each;
    for (const RankView* view : met) {
      if (!each.empty() && view == met.back()) break;
      each += fmt::format("{}{} in {} of step {}", each.empty() ? "" : ", ", name_of(*view), place_of(*view),
                          view->step);
    }
    return {-1, waited_, fmt::format("all ranks live and wait for each other, for {:.1f} s: {}", age, each)};
  }

  std::span<const RankView> ranks_;
  const std::string& own_node_;
  const RankView* longest_ = nullptr;
  double waited_ = 0;
  int waiting_ = 0;
  bool disabled_ = false;  // some rank is
};

}  // namespace

std::string name_of(const RankView& view) {
  return fmt::format("rank {} ({}, local {})", view.rank, text_of(view.node), view.local_rank);
}

std::optional<Stuck> find_stuck(std::span<const RankView> ranks, double limits, const std::string& own_node) {
  return Search(ranks, own_node).run(limits);
}

}  // namespace ingot::launch
