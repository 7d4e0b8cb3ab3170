#pragma once
// Messages::sleep() and wake() of a plug-in: one thread sleeps until an event, a wake or its limit. Header
// only, for plug-ins link nothing of ours. Internal to comm.

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace ingot::comm {

class Sleeper {
 public:
  Sleeper() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Sleeper() {
    if (wake_fd_ >= 0) close(wake_fd_);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  bool usable() const { return wake_fd_ >= 0; }

  // Until `event_fd` (-1: none) can be read, wake(), or the limit. `sleeping_` is raised before `woken_` is
  // looked at, and wake() does the reverse: one of the two sees the other.
  void sleep(int64_t limit_us, int event_fd) {
    sleeping_ = true;
    if (!woken_.exchange(false)) {
      pollfd waits[2] = {{wake_fd_, POLLIN, 0}, {event_fd, POLLIN, 0}};
      const timespec limit = {limit_us / 1'000'000, limit_us % 1'000'000 * 1000};
      if (ppoll(waits, 2, &limit, nullptr) > 0 && waits[0].revents != 0) {
        uint64_t count = 0;
        [[maybe_unused]] const ssize_t drained = read(wake_fd_, &count, sizeof count);
        woken_ = false;
      }
    }
    sleeping_ = false;
  }

  void wake() {
    woken_ = true;
    if (!sleeping_) return;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
  }

 private:
  const int wake_fd_;
  std::atomic<bool> sleeping_ = false, woken_ = false;
};

}  // namespace ingot::comm
