#include "comm/local/mailbox.h"

#include <fmt/format.h>

#include <cstring>

namespace ingot::comm::local {

// Waits until `done`, warning at the limit and giving up after twice as long; tell(seconds) is the sentence.
template <class Done, class Tell>
Result<void> Mailbox::await(std::unique_lock<std::mutex>& lock, const CallOptions& options, const Warn& warn,
                            const Done& done, const Tell& tell) {
  const auto begin = std::chrono::steady_clock::now();
  const double seconds = static_cast<double>(options.timeout.count()) / 1000.0;
  if (changed_.wait_until(lock, begin + options.timeout, done)) return {};
  if (warn) warn(tell(seconds));
  if (changed_.wait_until(lock, begin + 2 * options.timeout, done)) return {};
  return Error{ErrorCode::kFault, tell(2 * seconds)};
}

Result<void> Mailbox::send(const TensorView& in, int from, int to, int tag, const CallOptions& options,
                           const Warn& warn) {
  Message message{std::vector<std::byte>(static_cast<size_t>(in.bytes())), in.dtype, options.instruction};
  if (in.bytes() > 0) std::memcpy(message.bytes.data(), in.data, message.bytes.size());
  std::unique_lock lock(mutex_);
  std::deque<Message>& queue = messages_[{from, to, tag}];
  INGOT_TRY_VOID(await(
      lock, options, warn, [&] { return queue.size() < static_cast<size_t>(kMessagesInFlight); },
      [&](double seconds) {
        return fmt::format("rank {} has not received {} messages of tag {} for {:g} s; rank {} waits in {}",
                           rank_of(to), queue.size(), tag, seconds, rank_of(from),
                           describe_call("send", in.bytes(), options));
      }));
  queue.push_back(std::move(message));
  changed_.notify_all();
  return {};
}

Result<void> Mailbox::receive(const TensorView& out, int from, int to, int tag, const CallOptions& options,
                              const Warn& warn) {
  std::unique_lock lock(mutex_);
  std::deque<Message>& queue = messages_[{from, to, tag}];
  INGOT_TRY_VOID(await(
      lock, options, warn, [&] { return !queue.empty(); },
      [&](double seconds) {
        return fmt::format("rank {} has not sent the message of tag {} for {:g} s; rank {} waits in {}",
                           rank_of(from), tag, seconds, rank_of(to),
                           describe_call("receive", out.bytes(), options));
      }));
  const Message message = std::move(queue.front());
  queue.pop_front();
  changed_.notify_all();
  lock.unlock();
  if (message.bytes.size() != static_cast<size_t>(out.bytes()) || message.dtype != out.dtype) {
    CallOptions sender;
    sender.instruction = message.instruction;
    return Error{
        ErrorCode::kFault,
        fmt::format(
            "rank {} calls {} of {} where rank {} sent {} of {} (tag {}): all ranks must run the same "
            "program and version",
            rank_of(to), describe_call("receive", out.bytes(), options), tensor::name_of(out.dtype),
            rank_of(from), describe_call("send", static_cast<int64_t>(message.bytes.size()), sender),
            tensor::name_of(message.dtype), tag)};
  }
  if (!message.bytes.empty()) std::memcpy(out.data, message.bytes.data(), message.bytes.size());
  return {};
}

}  // namespace ingot::comm::local
