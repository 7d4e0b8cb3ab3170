#pragma once
// Where the members of one local group meet for a collective: all arrive, each does its share of the work on
// the others' memory, all leave. Internal to comm/local.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/comm.h"

namespace ingot::comm::local {

struct Call {
  std::string_view operation;  // static storage
  TensorView in, out;
  int dim = -1;                             // or root
  std::span<const int64_t> sent_rows = {};  // all_to_all: to each member
  int64_t bytes = 0;
  uint64_t sequence = 0;  // of this communicator's calls
  CallOptions options;
};

class Meeting {
 public:
  explicit Meeting(std::vector<int> ranks)
      : ranks_(std::move(ranks)), calls_(ranks_.size()), here_(ranks_.size()) {}

  using Warn = std::function<void(const std::string&)>;

  int size() const { return static_cast<int>(ranks_.size()); }
  int rank_of(int index) const { return ranks_[static_cast<size_t>(index)]; }

  // Waits for all members, calls work(calls by index), waits until all have done theirs. Sleeps while it
  // waits. The first member that has waited for its limit warns, if it can.
  template <class Work>
  Result<void> run(int index, const Call& call, const Warn& warn, const Work& work) {
    INGOT_TRY_VOID(arrive(index, call, warn));
    work(std::span<const Call>(calls_));
    leave();
    return {};
  }

  // The error that broke the group, if any; a message that cannot be had breaks it too.
  std::optional<Error> error() const;
  void fail(Error error);
  // Member `index` expects other rows in all_to_all than member `other` has for it.
  Error other_rows(int index, int64_t expected, int other, int64_t rows, const CallOptions& options) const;

 private:
  Result<void> arrive(int index, const Call& call, const Warn& warn);
  void leave();
  void fail_locked(Error error);
  Error missing_members(const Call& call, std::chrono::milliseconds waited) const;
  Error mismatch(int index, const Call& call, int other) const;

  const std::vector<int> ranks_;  // of the world, by index
  mutable std::mutex mutex_;      // guards all below; calls_ is read without it between arrival and leaving
  std::condition_variable changed_;
  std::vector<Call> calls_;
  std::vector<char> here_;
  int arrived_ = 0, left_ = 0;
  bool warned_ = false;               // of this round
  uint64_t opened_ = 0, closed_ = 0;  // rounds whose members have all arrived, and all left
  std::optional<Error> error_;
};

}  // namespace ingot::comm::local
