#include "comm/local/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/operands.h"

namespace ingot::comm::local {
namespace {

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000.0);
}

}  // namespace

Error Meeting::missing_members(const Call& call, std::chrono::milliseconds waited) const {
  std::string missing;
  int count = 0;
  for (int index = 0; index < size(); ++index) {
    if (here_[static_cast<size_t>(index)]) continue;
    missing += fmt::format("{}{}", count++ == 0 ? "" : ", ", rank_of(index));
  }
  return {ErrorCode::kFault, fmt::format("rank{} {} {} not arrived at {} for {}; {} of {} wait there",
                                         count == 1 ? "" : "s", missing, count == 1 ? "has" : "have",
                                         describe_call(call.operation, call.bytes, call.options),
                                         seconds(waited), size() - count, size())};
}

Error Meeting::mismatch(int index, const Call& call, int other) const {
  const auto words = [&](int member, const Call& c) {
    return CallWords{rank_of(member), describe_call(c.operation, c.bytes, c.options), c.in.dtype, c.dim,
                     c.sequence};
  };
  return differing_calls(words(index, call), words(other, calls_[static_cast<size_t>(other)]));
}

Error Meeting::other_rows(int index, int64_t expected, int other, int64_t rows,
                          const CallOptions& options) const {
  return {
      ErrorCode::kFault,
      fmt::format("rank {} expects {} rows of rank {} in {}, which sends {}: the counts of both must agree",
                  rank_of(index), expected, rank_of(other), describe_call("all_to_all", 0, options), rows)};
}

Result<void> Meeting::arrive(int index, const Call& call, const Warn& warn) {
  const std::chrono::milliseconds limit = call.options.timeout;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (error_) return *error_;
  const auto found = std::find(here_.begin(), here_.end(), char{1});
  if (found != here_.end()) {
    const int other = static_cast<int>(found - here_.begin());
    const Call& first = calls_[static_cast<size_t>(other)];
    if (first.operation != call.operation || first.bytes != call.bytes || first.sequence != call.sequence ||
        first.dim != call.dim || first.in.dtype != call.in.dtype) {
      fail_locked(mismatch(index, call, other));
      return *error_;
    }
  }
  INGOT_CHECK(!here_[static_cast<size_t>(index)], "member {} is in two calls of one group at once", index);
  calls_[static_cast<size_t>(index)] = call;
  here_[static_cast<size_t>(index)] = 1;
  const uint64_t round = closed_ + 1;
  if (++arrived_ == size()) {
    opened_ = round;
    changed_.notify_all();
    return {};
  }
  const auto over = [&] { return error_ || opened_ == round; };
  bool complete = changed_.wait_until(lock, begin + limit, over);
  if (!complete) {
    if (warn && !std::exchange(warned_, true)) warn(missing_members(call, limit).message);
    complete = changed_.wait_until(lock, begin + 2 * limit, over);
  }
  if (opened_ == round) return {};
  if (!complete) fail_locked(missing_members(call, 2 * limit));
  return *error_;
}

void Meeting::leave() {
  std::unique_lock lock(mutex_);
  const uint64_t round = opened_;
  if (++left_ == size()) {
    arrived_ = left_ = 0;
    warned_ = false;
    std::fill(here_.begin(), here_.end(), char{0});
    closed_ = round;
    changed_.notify_all();
    return;
  }
  // No time limit: all members are here and only copy memory; nobody may leave while another still reads its
  // tensor.
  changed_.wait(lock, [&] { return closed_ >= round; });
}

std::optional<Error> Meeting::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void Meeting::fail(Error error) {
  const std::lock_guard lock(mutex_);
  fail_locked(std::move(error));
}

void Meeting::fail_locked(Error error) {
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

}  // namespace ingot::comm::local
