#include "comm/local/mailbox.h"

#include <fmt/format.h>

#include <cstring>

namespace ingot::comm::local {

Result<void> Mailbox::send(const TensorView& in, int from, int to, int tag, const CallOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  Message message{std::vector<std::byte>(static_cast<size_t>(in.bytes())), in.dtype, options.instruction};
  if (in.bytes() > 0) std::memcpy(message.bytes.data(), in.data, message.bytes.size());
  std::unique_lock lock(mutex_);
  std::deque<Message>& queue = messages_[{from, to, tag}];
  const bool room = changed_.wait_until(
      lock, deadline, [&] { return queue.size() < static_cast<size_t>(kMessagesInFlight); });
  if (!room) {
    return Error{
        ErrorCode::kFault,
        fmt::format("rank {} has not received {} messages of tag {} for {:g} s; rank {} waits in {}",
                    rank_of(to), queue.size(), tag, static_cast<double>(options.timeout.count()) / 1000.0,
                    rank_of(from), describe_call("send", in.bytes(), options))};
  }
  queue.push_back(std::move(message));
  changed_.notify_all();
  return {};
}

Result<void> Mailbox::receive(const TensorView& out, int from, int to, int tag, const CallOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  std::unique_lock lock(mutex_);
  std::deque<Message>& queue = messages_[{from, to, tag}];
  if (!changed_.wait_until(lock, deadline, [&] { return !queue.empty(); })) {
    return Error{ErrorCode::kFault,
                 fmt::format("rank {} has not sent the message of tag {} for {:g} s; rank {} waits in {}",
                             rank_of(from), tag, static_cast<double>(options.timeout.count()) / 1000.0,
                             rank_of(to), describe_call("receive", out.bytes(), options))};
  }
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
