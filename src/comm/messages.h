#pragma once
// What a transport between processes gives: point-to-point messages, started and completed by whoever drives
// it. Collectives and communicators over it are the engine's (comm/engine.h), which is the same for every
// such transport. To add one: implement Messages in comm/<name>/, and a row in transports.cc.

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace ingot::comm {

// One message in flight. Owned by whoever posted it, at a fixed address until `state` is no longer kPosted; a
// message that was never completed (its peer died) must never be freed: park it.
struct Message {
  enum class State : uint8_t { kIdle, kPosted, kDone, kFailed };
  int peer = 0;  // rank in the world
  bool send = false;
  uint64_t tag = 0;  // matched whole, no wildcards; one tag names one message of those on their way
  void* data = nullptr;
  int64_t bytes = 0;  // 0: a signal, `data` may be null
  State state = State::kIdle;
  const char* failure = "";  // kFailed: static text of the transport ("Connection reset by remote peer")
  void* request = nullptr;   // the transport's own
};

// What the engine puts into a tag, from its highest bit: generation 8 | sender's rank 16 | channel 14 | lane
// 2 | rest 24. A channel is a communicator, numbered so that any two members of it agree and no two
// communicators of the same two ranks are alike. Lanes: parts of collectives, whose rest counts the messages
// from this sender to this receiver on the channel; messages of send and receive, whose rest is the caller's
// tag (12) and a count of messages of that tag (12); and headers of each, which say what call a message
// belongs to. Counts wrap: far fewer messages are on their way. A transport with narrower tags may drop the
// generation, the sender where it matches senders by itself, and high bits of counts where messages of equal
// tags arrive in the order in which they were sent.
inline constexpr int kTagGenerationBits = 8, kTagSourceBits = 16, kTagChannelBits = 14, kTagLaneBits = 2,
                     kTagRestBits = 24;
static_assert(kTagGenerationBits + kTagSourceBits + kTagChannelBits + kTagLaneBits + kTagRestBits == 64);

// One rank's side. All calls but wake() and sleep() are made by one thread at a time: the one that drives the
// engine.
class Messages {
 public:
  virtual ~Messages() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  // Starts it; never blocks. It may be kDone on return. A receive that is shorter than its message may fail
  // or complete with the beginning of it; a longer one completes with what there is: the engine tells the
  // sizes from headers.
  virtual void post(Message& message) = 0;
  // Moves what is in flight and completes messages. Returns whether anything happened.
  virtual bool progress() = 0;
  // Prepares a sleep(): what arrives from now on ends it. False where something waits for progress() already.
  virtual bool arm() = 0;
  // Sleeps until something arrived after the last arm(), wake() was called, or `limit` is over; may return
  // early. Thread-safe: one thread sleeps while another may make the other calls.
  virtual void sleep(std::chrono::microseconds limit) = 0;
  // Ends the sleep() of another thread, or the next one; cheap where nobody sleeps. Thread-safe.
  virtual void wake() = 0;
  // After a barrier of all ranks: connections are closed in order. Not called after a failure.
  virtual Result<void> close() = 0;
};

}  // namespace ingot::comm
