#include "comm/hub_for_tests.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace ingot::comm {
namespace {

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

}  // namespace

bool Hub::loses(int rank, int peer) {
  return (rank == behaviour_.lost_rank || peer == behaviour_.lost_rank) &&
         ++posted_with_lost_ > behaviour_.lost_after;
}

void Hub::post(int rank, Message& message) {
  const std::lock_guard lock(mutex_);
  if (loses(rank, message.peer)) {
    message.failure = "connection reset by the test";
    message.state = Message::State::kFailed;
    return;
  }
  if (!message.send) {
    box(rank).receives.push_back(&message);
    return;
  }
  Parcel parcel;
  parcel.due_ns = monotonic_ns();
  if (behaviour_.most_delay_ns > 0)
    parcel.due_ns += static_cast<int64_t>(random_()) % behaviour_.most_delay_ns;
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
}

bool Hub::progress(int rank) {
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
    deliver(found->second.front(), receive);
    found->second.pop_front();
    if (found->second.empty()) own.parcels.erase(found);
    own.receives[i] = own.receives.back();
    own.receives.pop_back();
    moved = true;
  }
  return moved;
}

// Nothing is due that a receive waits for.
bool Hub::arm(int rank) {
  const std::lock_guard lock(mutex_);
  const Box& own = box(rank);
  const int64_t now = monotonic_ns();
  return own.taken.empty() &&
         std::none_of(own.receives.begin(), own.receives.end(), [&](const Message* receive) {
           const auto found = own.parcels.find(receive->tag);
           return found != own.parcels.end() && found->second.front().due_ns <= now;
         });
}

void Hub::sleep(int rank, std::chrono::microseconds limit) {
  std::unique_lock lock(mutex_);
  Box& own = box(rank);
  // Delayed messages come without a signal.
  if (behaviour_.most_delay_ns > 0) limit = std::min(limit, std::chrono::microseconds(200));
  own.changed.wait_for(lock, limit, [&] { return own.signalled; });
  own.signalled = false;
}

void Hub::wake(int rank) {
  const std::lock_guard lock(mutex_);
  signal(rank);
}

void Hub::signal(int rank) {
  box(rank).signalled = true;
  box(rank).changed.notify_all();
}

void Hub::deliver(Parcel& parcel, Message& receive) {
  const int64_t bytes = std::min(parcel.bytes, receive.bytes);
  const void* from = parcel.sender != nullptr ? parcel.sender->data : parcel.copy.data();
  if (bytes > 0) std::memcpy(receive.data, from, static_cast<size_t>(bytes));
  receive.failure = parcel.from == receive.peer ? "message truncated" : "a message of another rank";
  const bool right = parcel.bytes <= receive.bytes && parcel.from == receive.peer;
  receive.state = right ? Message::State::kDone : Message::State::kFailed;
  if (parcel.sender == nullptr) return;
  box(parcel.from).taken.push_back(parcel.sender);
  signal(parcel.from);
}

std::vector<std::unique_ptr<Transport>> make_hub_world(int ranks, const Hub::Behaviour& behaviour) {
  const auto hub = std::make_shared<Hub>(ranks, behaviour);
  std::vector<std::unique_ptr<Transport>> world;
  for (int rank = 0; rank < ranks; ++rank) {
    EngineOptions options;
    if (behaviour.ranks_per_node > 0) options.node = std::to_string(rank / behaviour.ranks_per_node);
    if (behaviour.pages != nullptr) options.page = &(*behaviour.pages)[static_cast<size_t>(rank)];
    world.push_back(make_scheduled_transport(std::make_unique<HubMessages>(hub, rank), options));
  }
  return world;
}

}  // namespace ingot::comm
