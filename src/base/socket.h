#pragma once
// Stream sockets between processes of ours, with a time limit on every wait. An address is "host:port"
// ("[::1]:29500" for IPv6), or, for processes of one node, a path with a '/' in it (a Unix socket).

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace ingot {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_after(std::chrono::milliseconds limit);
int milliseconds_until(Deadline deadline);  // for poll(): 0 when it is over

// An open descriptor, closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// Non-blocking. A path at which nobody listens any more is taken over; whoever listens removes it at the end.
// Port 0 takes a free one. Errors: an address that is none, one that is taken, or what the system says.
Result<Socket> listen_at(const std::string& address);
int port_of(const Socket& listener);  // of a TCP listener
// Non-blocking; fd -1 when nobody waits.
Result<Socket> accept_from(const Socket& listener);
// Tries again until somebody listens there. Errors: nobody did by the deadline, with the last reason.
Result<Socket> connect_to(const std::string& address, Deadline deadline);

// Errors (kIo): the other end has closed ("closed"), the deadline, or what the system says.
Result<void> read_exactly(const Socket& socket, std::span<std::byte> bytes, Deadline deadline);
Result<void> write_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);

}  // namespace ingot
