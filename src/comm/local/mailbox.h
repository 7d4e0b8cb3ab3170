#pragma once
// Messages from one local rank to another: copied in by the sender, which goes on at once, and copied out by
// the receiver. Internal to comm/local.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "comm/comm.h"

namespace ingot::comm::local {

class Mailbox {
 public:
  explicit Mailbox(std::vector<int> ranks) : ranks_(std::move(ranks)) {}

  using Warn = std::function<void(const std::string&)>;
  Result<void> send(const TensorView& in, int from, int to, int tag, const CallOptions& options,
                    const Warn& warn);
  Result<void> receive(const TensorView& out, int from, int to, int tag, const CallOptions& options,
                       const Warn& warn);

 private:
  using Address = std::tuple<int, int, int>;  // from, to, tag
  struct Message {
    std::vector<std::byte> bytes;
    tensor::DType dtype;
    int instruction;
  };
  template <class Done, class Tell>
  Result<void> await(std::unique_lock<std::mutex>& lock, const CallOptions& options, const Warn& warn,
                     const Done& done, const Tell& tell);
  int rank_of(int index) const { return ranks_[static_cast<size_t>(index)]; }

  const std::vector<int> ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Address, std::deque<Message>> messages_;
};

}  // namespace ingot::comm::local
