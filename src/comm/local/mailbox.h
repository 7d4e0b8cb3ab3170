#pragma once
// Messages from one local rank to another: the k-th that is sent on a lane goes to the k-th receive posted
// there, from memory to memory. Copied when either side waits and both have posted; so a tensor that is
// changed too early is seen by the receiver. Or, `early`, as soon as both have posted; so one that is still
// read is overwritten. Internal to comm/local.

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "comm/comm.h"

namespace ingot::comm::local {

class Mailbox {
 public:
  Mailbox(std::vector<int> ranks, bool early) : ranks_(std::move(ranks)), early_(early) {}

  using Warn = std::function<void(const std::string&)>;
  struct Lane;
  // One side of a message.
  struct Posted {
    Lane* lane = nullptr;  // null: none
    uint64_t number = 0;   // on its lane
    bool send = false;
  };
  // Waits only while kMessagesInFlight before it are not done.
  Result<Posted> post(bool send, const TensorView& view, int from, int to, int tag,
                      const CallOptions& options, const Warn& warn);
  // A small message is kept for its receiver and done; a larger one is done when it was copied.
  Result<void> wait(const Posted& posted, const CallOptions& options, const Warn& warn);
  // For who goes without waiting: nobody touches its memory any more.
  void withdraw(const Posted& posted);

 private:
  struct Side {
    TensorView view;
    int instruction = -1;
    bool posted = false, left = false;
  };
  struct Parcel {
    enum class State : uint8_t { kOpen, kCopying, kDone, kDiffers, kWithdrawn };
    uint64_t number = kFree;
    Side sent, received;
    std::vector<std::byte> kept;  // instead of the sender's memory, where `is_kept`
    bool is_kept = false;
    State state = State::kOpen;
    std::string failure;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  using Lock = std::unique_lock<std::mutex>;

  template <class Done, class Tell>
  Result<void> await(Lock& lock, const CallOptions& options, const Warn& warn, const Done& done,
                     const Tell& tell);
  Lane& lane_of(int from, int to, int tag);
  Parcel& parcel_of(const Posted& posted);
  void copy(Lock& lock, const Lane& lane, Parcel& parcel);
  static void keep(Parcel& parcel);
  void withdraw(const Lane& lane, Parcel& parcel, bool send) const;
  void leave(Parcel& parcel, bool send);
  std::string mismatch(const Lane& lane, const Parcel& parcel) const;
  std::string missing(const Lane& lane, bool send, int64_t bytes, double seconds,
                      const CallOptions& options) const;
  int rank_of(int index) const { return ranks_[static_cast<size_t>(index)]; }

  const std::vector<int> ranks_;
  const bool early_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int, int, int>, Lane> lanes_;  // by from, to, tag
};

struct Mailbox::Lane {
  int from = 0, to = 0, tag = 0;
  uint64_t sends = 0, receives = 0;  // posted so far
  std::vector<Parcel> parcels = std::vector<Parcel>(kMessagesInFlight);
};

}  // namespace ingot::comm::local
