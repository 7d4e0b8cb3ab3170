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
  uint64_t tag = 0;  // matched whole, no wildcards; one tag names one message
  void* data = nullptr;
  int64_t bytes = 0;
  State state = State::kIdle;
  const char* failure = "";  // kFailed: static text of the transport ("Connection reset by remote peer")
  void* request = nullptr;   // the transport's own
};

// One rank's side. All calls but wake() are made by one thread at a time: the one that drives the engine.
class Messages {
 public:
  virtual ~Messages() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  // Starts it; never blocks. It may be kDone on return.
  virtual void post(Message& message) = 0;
  // Moves what is in flight and completes messages. Returns whether anything happened.
  virtual bool progress() = 0;
  // Sleeps until something may have arrived, wake() was called, or `limit` is over.
  virtual void doze(std::chrono::microseconds limit) = 0;
  // Ends a doze() of another thread; cheap where nobody dozes. Thread-safe.
  virtual void wake() = 0;
  // After a barrier of all ranks: connections are closed in order. Not called after a failure.
  virtual Result<void> close() = 0;
};

}  // namespace ingot::comm
