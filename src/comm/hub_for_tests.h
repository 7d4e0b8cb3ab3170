#pragma once
// Messages inside this process, for tests of the engine: threads as ranks, and a hub between them that may
// deliver late, out of order across tags, or not at all.

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "comm/scheduled.h"

namespace ingot::comm {

// What the ranks share: messages on their way to each. Small ones are copied when sent, others wait for their
// receiver, as in real transports.
class Hub {
 public:
  struct Behaviour {
    int64_t most_delay_ns = 0;  // each message is held back for a random time up to this
    int lost_rank = -1;         // messages to and from it fail after the first `lost_after`
    int lost_after = 0;
    int ranks_per_node = 0;  // 0: all ranks share a node
    std::vector<ProgressPage>* pages = nullptr;
  };
  Hub(int ranks, const Behaviour& behaviour)
      : ranks_(ranks), behaviour_(behaviour), boxes_(static_cast<size_t>(ranks)) {}
  int ranks() const { return ranks_; }

  void post(int rank, Message& message);
  bool progress(int rank);
  bool arm(int rank);
  void sleep(int rank, std::chrono::microseconds limit);
  void wake(int rank);

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
    std::vector<Message*> taken;  // sent from here, and received
    std::condition_variable changed;
    bool signalled = false;
  };
  Box& box(int rank) { return boxes_[static_cast<size_t>(rank)]; }
  bool loses(int rank, int peer);
  void signal(int rank);
  void deliver(Parcel& parcel, Message& receive);

  const int ranks_;
  const Behaviour behaviour_;
  std::mutex mutex_;
  std::minstd_rand random_{1};
  int posted_with_lost_ = 0;
  std::deque<Box> boxes_;
};

// All ranks of a world over one hub.
std::vector<std::unique_ptr<Transport>> make_hub_world(int ranks, const Hub::Behaviour& behaviour);

}  // namespace ingot::comm
