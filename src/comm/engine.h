#pragma once
// Runs schedules over the messages of a transport. Whoever waits for an operation drives it (and all others)
// itself; a thread of the engine's own drives what nobody waits for, and shows that the rank lives.
//
// An operation ends when all its steps are done and the header of every peer that it hears from says that the
// peer makes the same call. It fails when a header says otherwise, a message fails, or it has lasted twice
// its limit. Then messages may still be posted: the memory that they point to must stay until the process
// ends or the transport is gone, and the operation itself is kept for ever.

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "comm/messages.h"
#include "cost/collective_schedule.h"

namespace ingot::comm {

// What call a message belongs to. Sent once per operation to every peer that gets messages in it. Same bytes
// on all ranks of a world: one binary, one kind of machine.
struct Header {
  uint64_t sequence = 0;  // calls of this kind on this communicator before it
  int64_t bytes = 0;      // of the call's operand; where members differ (all_to_all): of this pair
  int32_t instruction = -1;
  int32_t detail = -1;  // dimension, root or tag
  uint32_t plan = 0;    // of the schedule: algorithm and pieces
  tensor::DType dtype = tensor::DType::kF32;
  std::array<char, 15> operation{};
  std::array<char, 20> what{};
};
static_assert(sizeof(Header) == 64);

// The other end of messages: a member of the group.
struct Peer {
  int rank = 0;                     // in the world
  uint64_t channel = 0;             // of the communicator, between these two ranks
  uint64_t sent = 0, received = 0;  // messages of collectives so far, in operations that ended
};

// One call in flight: a schedule bound to memory. Made once per shape, used again and again; at a fixed
// address.
class Operation {
 public:
  // `peers` by index in the group, borrowed. Headers go to and come from every peer that the schedule has
  // messages with.
  Operation(cost::Schedule schedule, std::vector<Peer>& peers);

  // What changes from call to call; set before it is submitted. Areas: in, out, scratch.
  std::array<std::byte*, cost::kAreas> area{};
  Header header;
  std::string_view name;  // "all_reduce", static
  CallOptions options;
  // Of send and receive: what tells their messages apart on the channel (messages.h); collectives count
  // theirs.
  std::optional<uint64_t> mark;
  // Of the only message of send or receive, in elements.
  void resize(int64_t elements) { schedule_.steps.front().elements = elements; }
  // Where the bytes of the call differ from peer to peer: by index in the group.
  std::span<const int64_t> sent_bytes = {}, received_bytes = {};

 private:
  friend class Engine;
  struct HeaderMessage {
    size_t member = 0;
    uint32_t messages = 0;  // of the schedule, with this member, in this direction
    Header header;
    Message message;
  };
  struct Ready {  // steps whose waits are over, smallest first
    std::vector<uint32_t> heap;
    void push(uint32_t step);
    uint32_t pop();
  };
  void begin();
  void make_ready(uint32_t step);
  bool unfinished_messages() const;

  cost::Schedule schedule_;
  std::vector<Peer>& peers_;
  std::vector<Message> messages_;  // as schedule_.steps
  std::vector<HeaderMessage> headers_;
  std::vector<uint32_t> waits_, posted_;
  Ready receives_, sends_, sums_;
  size_t steps_left_ = 0, headers_left_ = 0;
  std::array<size_t, 2> posted_count_{};  // receives, sends
  std::array<uint32_t, 2> posted_highest_{};
  std::atomic<int64_t> waited_since_ns_{0};  // 0: nobody waits yet
  std::atomic<int64_t> limit_ns_{0};
  int64_t broken_ns_ = 0;
  bool warned_ = false;
  std::optional<Error> broken_;  // a message has failed; headers may still say why
  std::optional<Error> error_;
  std::atomic<bool> finished_{true};
};

struct EngineOptions {
  std::chrono::microseconds spin{20};  // how long a waiter turns before it sleeps
  uint32_t generation = 0;
  ProgressPage* page = nullptr;
  std::string node;  // ranks with the same text share a node
};

class Engine {
 public:
  Engine(std::unique_ptr<Messages> messages, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Messages& messages() { return *messages_; }
  ProgressPage* page() const { return options_.page; }
  const std::string& node() const { return options_.node; }
  void on_warning(std::function<void(const std::string&)> listener) { warn_ = std::move(listener); }

  // Starts it and waits until it has ended; returns its error if it failed. Thread-safe, as all below is;
  // nothing here allocates once the most operations were in flight.
  Result<void> run(Operation& operation);
  // Starts it, as far as that can be done at once; it goes on by itself. To be waited for once: its limit
  // counts from then on.
  void post(Operation& operation);
  Result<void> wait(Operation& operation, std::chrono::milliseconds limit);
  // After a barrier of all ranks: closes the transport's connections in order.
  Result<void> close();
  // Frees it, or keeps it for ever where it failed, or nobody waited for it, with messages under way.
  void discard(std::unique_ptr<Operation> operation);

 private:
  using Lock = std::unique_lock<std::mutex>;
  void progress_thread();
  template <class Until>
  void drive(Lock& lock, const Until& until);
  void release(Lock& lock);
  void submit(Operation& operation);
  bool turn();
  bool take_submitted();
  void post_headers(Operation& operation);
  bool advance(Operation& operation);
  bool collect(Operation& operation);
  bool collect_headers(Operation& operation);
  bool issue(Operation& operation);
  bool issue_messages(Operation& operation, Operation::Ready& ready, size_t kind);
  void post_message(Operation& operation, uint32_t step, size_t kind);
  static void complete(Operation& operation, uint32_t step);
  void look_at_time(Operation& operation, int64_t now);
  std::optional<Error> compare(const Operation& operation, const Operation::HeaderMessage& received) const;
  Error broken(const Operation& operation, const Message& message) const;
  void finish(size_t active, std::optional<Error> error);
  int waited_for(const Operation& operation) const;
  std::string lateness(const Operation& operation, double seconds) const;
  uint64_t tag(const Peer& peer, bool send, uint64_t lane, uint64_t rest) const;

  std::unique_ptr<Messages> messages_;
  const EngineOptions options_;
  std::function<void(const std::string&)> warn_;

  std::mutex mutex_;                 // guards what follows
  std::condition_variable changed_;  // a waiter may go on
  std::condition_variable idle_;     // the progress thread may be needed
  bool driving_ = false;   // a thread calls messages_ and touches active operations, without the mutex
  bool sleeping_ = false;  // a thread is in messages_->sleep()
  std::vector<Operation*> submitted_;
  std::atomic<bool> stop_{false}, has_submitted_{false};
  std::atomic<int> waiters_{0};
  std::atomic<int> outstanding_{0};  // submitted and not finished

  std::vector<Operation*> active_;  // the driver's
  uint64_t turns_ = 0, calls_ = 0;
  std::thread thread_;
};

}  // namespace ingot::comm
