// The engine and its communicators over messages inside this process: threads as ranks, a hub that delivers
// late, out of order across tags, or not at all.

#include "comm/scheduled.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <random>

#include "base/clock.h"
#include "comm/contract_suite.h"

namespace ingot::comm {
namespace {

// What ranks share: messages on their way to each. Small ones are copied when sent, others wait for their
// receiver, as real transports do.
class Hub {
 public:
  struct Behaviour {
    int64_t most_delay_ns = 0;  // each message is held back for a random time up to this
    int lost_rank = -1;         // messages to and from it fail after the first `lost_after`
    int lost_after = 0;
  };
  Hub(int ranks, const Behaviour& behaviour)
      : ranks_(ranks), behaviour_(behaviour), boxes_(static_cast<size_t>(ranks)) {}
  int ranks() const { return ranks_; }

  void post(int rank, Message& message) {
    const std::lock_guard lock(mutex_);
    if (lost(rank) || lost(message.peer)) {
      if (++posted_with_lost_ > behaviour_.lost_after) {
        message.failure = "connection reset by the test";
        message.state = Message::State::kFailed;
        return;
      }
    }
    if (message.send) {
      Parcel parcel;
      parcel.due_ns =
          monotonic_ns() +
          (behaviour_.most_delay_ns == 0 ? 0 : static_cast<int64_t>(random_()) % behaviour_.most_delay_ns);
      parcel.from = rank;
      parcel.bytes = message.bytes;
      if (message.bytes <= kBufferedBytes) {
        const auto* data = static_cast<const std::byte*>(message.data);
        parcel.copy.assign(data, data + message.bytes);
        message.state = Message::State::kDone;
      } else {
        parcel.sender = &message;
      }
      box(message.peer).parcels[message.tag].push_back(std::move(parcel));
      signal(message.peer);
    } else {
      box(rank).receives.push_back(&message);
    }
  }

  bool progress(int rank) {
    const std::lock_guard lock(mutex_);
    Box& own = box(rank);
    own.signalled = false;
    bool moved = !own.taken.empty();
    for (Message* const message : own.taken) message->state = Message::State::kDone;
    own.taken.clear();
    const int64_t now = monotonic_ns();
    for (size_t i = 0; i < own.receives.size();) {
      Message& receive = *own.receives[i];
      const auto found = own.parcels.find(receive.tag);
      if (found == own.parcels.end() || found->second.front().due_ns > now) {
        ++i;
        continue;
      }
      Parcel& parcel = found->second.front();
      deliver(parcel, receive);
      found->second.pop_front();
      if (found->second.empty()) own.parcels.erase(found);
      own.receives[i] = own.receives.back();
      own.receives.pop_back();
      moved = true;
    }
    return moved;
  }

  // Nothing is due that a receive waits for.
  bool arm(int rank) {
    const std::lock_guard lock(mutex_);
    const Box& own = box(rank);
    if (!own.taken.empty()) return false;
    const int64_t now = monotonic_ns();
    return std::ranges::none_of(own.receives, [&](const Message* receive) {
      const auto found = own.parcels.find(receive->tag);
      return found != own.parcels.end() && found->second.front().due_ns <= now;
    });
  }

  void sleep(int rank, std::chrono::microseconds limit) {
    std::unique_lock lock(mutex_);
    Box& own = box(rank);
    // Delayed messages come without a signal.
    if (behaviour_.most_delay_ns > 0) limit = std::min(limit, std::chrono::microseconds(200));
    own.changed.wait_for(lock, limit, [&] { return own.signalled; });
    own.signalled = false;
  }

  void wake(int rank) {
    const std::lock_guard lock(mutex_);
    signal(rank);
  }

 private:
  struct Parcel {
    int64_t due_ns = 0, bytes = 0;
    int from = 0;
    std::vector<std::byte> copy;
    Message* sender = nullptr;
  };
  struct Box {
    std::map<uint64_t, std::deque<Parcel>> parcels;
    std::vector<Message*> receives;
    std::condition_variable changed;
    std::vector<Message*> taken;  // sent from here, and received
    bool signalled = false;
  };
  Box& box(int rank) { return boxes_[static_cast<size_t>(rank)]; }
  bool lost(int rank) const { return rank == behaviour_.lost_rank; }
  void signal(int rank) {
    box(rank).signalled = true;
    box(rank).changed.notify_all();
  }

  void deliver(Parcel& parcel, Message& receive) {
    EXPECT_EQ(parcel.from, receive.peer);
    const int64_t bytes = std::min(parcel.bytes, receive.bytes);
    const void* from = parcel.sender != nullptr ? parcel.sender->data : parcel.copy.data();
    if (bytes > 0) std::memcpy(receive.data, from, static_cast<size_t>(bytes));
    receive.failure = "message truncated";
    receive.state = parcel.bytes > receive.bytes ? Message::State::kFailed : Message::State::kDone;
    if (parcel.sender == nullptr) return;
    box(parcel.from).taken.push_back(parcel.sender);
    signal(parcel.from);
  }

  const int ranks_;
  const Behaviour behaviour_;
  std::mutex mutex_;
  std::minstd_rand random_{1};
  int posted_with_lost_ = 0;
  std::deque<Box> boxes_;
};

class HubMessages final : public Messages {
 public:
  HubMessages(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const override { return rank_; }
  int world() const override { return hub_->ranks(); }
  void post(Message& message) override { hub_->post(rank_, message); }
  bool progress() override { return hub_->progress(rank_); }
  bool arm() override { return hub_->arm(rank_); }
  void sleep(std::chrono::microseconds limit) override { hub_->sleep(rank_, limit); }
  void wake() override { hub_->wake(rank_); }
  Result<void> close() override { return {}; }

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;
};

std::vector<std::unique_ptr<Transport>> make_world(int ranks, const Hub::Behaviour& behaviour) {
  const auto hub = std::make_shared<Hub>(ranks, behaviour);
  std::vector<std::unique_ptr<Transport>> world;
  for (int rank = 0; rank < ranks; ++rank)
    world.push_back(make_scheduled_transport(std::make_unique<HubMessages>(hub, rank), {}));
  return world;
}

INSTANTIATE_TEST_SUITE_P(
    Scheduled, TransportContract,
    ::testing::Values(WorldFactory{"prompt", [](int ranks) { return make_world(ranks, {}); }, false},
                      WorldFactory{"delayed",
                                   [](int ranks) { return make_world(ranks, {.most_delay_ns = 300'000}); },
                                   false}),
    [](const auto& factory) { return factory.param.name; });

}  // namespace
}  // namespace ingot::comm
