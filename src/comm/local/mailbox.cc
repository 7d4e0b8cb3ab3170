#include "comm/local/mailbox.h"

#include <fmt/format.h>

#include <cstring>

namespace ingot::comm::local {

// Waits until `done`, warning at the limit and giving up after twice as long; tell(seconds) is the sentence.
template <class Done, class Tell>
Result<void> Mailbox::await(Lock& lock, const CallOptions& options, const Warn& warn, const Done& done,
                            const Tell& tell) {
  const auto begin = std::chrono::steady_clock::now();
  const double seconds = static_cast<double>(options.timeout.count()) / 1000.0;
  if (changed_.wait_until(lock, begin + options.timeout, done)) return {};
  if (warn) warn(tell(seconds));
  if (changed_.wait_until(lock, begin + 2 * options.timeout, done)) return {};
  return Error{ErrorCode::kFault, tell(2 * seconds)};
}

Mailbox::Lane& Mailbox::lane_of(int from, int to, int tag) {
  Lane& lane = lanes_[{from, to, tag}];
  lane.from = from, lane.to = to, lane.tag = tag;
  return lane;
}

Mailbox::Parcel& Mailbox::parcel_of(const Posted& posted) {
  return posted.lane->parcels[posted.number % posted.lane->parcels.size()];
}

Result<Mailbox::Posted> Mailbox::post(bool send, const TensorView& view, int from, int to, int tag,
                                      const CallOptions& options, const Warn& warn) {
  Lock lock(mutex_);
  Lane& lane = lane_of(from, to, tag);
  const Posted posted{&lane, send ? lane.sends : lane.receives, send};
  Parcel& parcel = parcel_of(posted);
  INGOT_TRY_VOID(await(
      lock, options, warn, [&] { return parcel.number == kFree || parcel.number == posted.number; },
      [&](double seconds) { return missing(lane, send, view.bytes(), seconds, options); }));
  ++(send ? lane.sends : lane.receives);
  parcel.number = posted.number;
  (send ? parcel.sent : parcel.received) = {view, options.instruction, true, false};
  if (early_ && parcel.sent.posted && parcel.received.posted && parcel.state == Parcel::State::kOpen)
    copy(lock, lane, parcel);
  changed_.notify_all();
  return posted;
}

Result<void> Mailbox::wait(const Posted& posted, const CallOptions& options, const Warn& warn) {
  Lock lock(mutex_);
  Parcel& parcel = parcel_of(posted);
  const Side& own = posted.send ? parcel.sent : parcel.received;
  const Side& other = posted.send ? parcel.received : parcel.sent;
  const bool small = posted.send && own.view.bytes() <= kBufferedBytes;
  if (small && !other.posted) keep(parcel);
  const auto may_go_on = [&] {
    return parcel.state != Parcel::State::kCopying &&
           (parcel.is_kept || other.posted || parcel.state != Parcel::State::kOpen);
  };
  auto result = await(lock, options, warn, may_go_on, [&](double seconds) {
    return missing(*posted.lane, posted.send, own.view.bytes(), seconds, options);
  });
  const bool kept = posted.send && parcel.is_kept;
  if (parcel.state == Parcel::State::kOpen && other.posted && !kept) copy(lock, *posted.lane, parcel);
  changed_.wait(lock, [&] { return parcel.state != Parcel::State::kCopying; });
  // What differs is told to the receiver alone: the sender of a small message may have gone on already.
  const bool differs = parcel.state == Parcel::State::kDiffers && !posted.send;
  if (result && (differs || parcel.state == Parcel::State::kWithdrawn))
    result = Error{ErrorCode::kFault, parcel.failure};
  if (!result && parcel.state == Parcel::State::kOpen) withdraw(*posted.lane, parcel, posted.send);
  leave(parcel, posted.send);
  return result;
}

void Mailbox::withdraw(const Posted& posted) {
  Lock lock(mutex_);
  Parcel& parcel = parcel_of(posted);
  changed_.wait(lock, [&] { return parcel.state != Parcel::State::kCopying; });
  const bool small = posted.send && parcel.sent.view.bytes() <= kBufferedBytes;
  if (parcel.state == Parcel::State::kOpen && small) keep(parcel);
  if (parcel.state == Parcel::State::kOpen && !small) withdraw(*posted.lane, parcel, posted.send);
  leave(parcel, posted.send);
}

void Mailbox::withdraw(const Lane& lane, Parcel& parcel, bool send) const {
  parcel.state = Parcel::State::kWithdrawn;
  parcel.failure = fmt::format("rank {} left before it had {} the message of tag {}",
                               rank_of(send ? lane.from : lane.to), send ? "sent" : "received", lane.tag);
}

// From memory to memory, without the lock; both sides have posted.
void Mailbox::copy(Lock& lock, const Lane& lane, Parcel& parcel) {
  const TensorView &from = parcel.sent.view, &to = parcel.received.view;
  if (from.bytes() != to.bytes() || from.dtype != to.dtype) {
    parcel.failure = mismatch(lane, parcel);
    parcel.state = Parcel::State::kDiffers;
  } else {
    parcel.state = Parcel::State::kCopying;
    lock.unlock();
    const void* data = parcel.is_kept ? parcel.kept.data() : from.data;
    if (from.bytes() > 0) std::memcpy(to.data, data, static_cast<size_t>(from.bytes()));
    lock.lock();
    parcel.state = Parcel::State::kDone;
  }
  changed_.notify_all();
}

void Mailbox::keep(Parcel& parcel) {
  const auto* data = parcel.sent.view.as<const std::byte>();
  parcel.kept.assign(data, data + parcel.sent.view.bytes());
  parcel.is_kept = true;
}

// The parcel is free for a later message when both sides have left it.
void Mailbox::leave(Parcel& parcel, bool send) {
  (send ? parcel.sent : parcel.received).left = true;
  if (parcel.sent.left && parcel.received.left) {
    parcel.number = kFree;
    parcel.sent = parcel.received = {};
    parcel.is_kept = false;
    parcel.state = Parcel::State::kOpen;
  }
  changed_.notify_all();
}

std::string Mailbox::mismatch(const Lane& lane, const Parcel& parcel) const {
  const Side &sent = parcel.sent, &received = parcel.received;
  CallOptions sender, receiver;
  sender.instruction = sent.instruction;
  receiver.instruction = received.instruction;
  return fmt::format(
      "rank {} calls {} of {} where rank {} sent {} of {} (tag {}): all ranks must run the same program and "
      "version",
      rank_of(lane.to), describe_call("receive", received.view.bytes(), receiver),
      tensor::name_of(received.view.dtype), rank_of(lane.from),
      describe_call("send", sent.view.bytes(), sender), tensor::name_of(sent.view.dtype), lane.tag);
}

std::string Mailbox::missing(const Lane& lane, bool send, int64_t bytes, double seconds,
                             const CallOptions& options) const {
  return fmt::format("rank {} has not {} the message of tag {} for {:g} s; rank {} waits in {}",
                     rank_of(send ? lane.to : lane.from), send ? "received" : "sent", lane.tag, seconds,
                     rank_of(send ? lane.from : lane.to),
                     describe_call(send ? "send" : "receive", bytes, options));
}

}  // namespace ingot::comm::local
