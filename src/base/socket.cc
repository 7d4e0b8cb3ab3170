#include "base/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace ingot {
namespace {

std::string system_message(int error) { return std::error_code(error, std::system_category()).message(); }

bool is_path(const std::string& address) { return address.find('/') != std::string::npos; }

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path))
    return invalid(
        fmt::format("{} is too long for a socket: at most {} bytes", path, sizeof(name.sun_path) - 1));
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  return name;
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<Addresses> resolve(const std::string& address, bool to_listen) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size())
    return invalid(fmt::format("'{}' is no address: host:port, or a path with a '/' on one node", address));
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (status != 0)
    return Error{ErrorCode::kUnavailable,
                 fmt::format("host {} is not known: {}", host, gai_strerror(status))};
  return Addresses(found, freeaddrinfo);
}

Socket open_socket(int family) {
  return Socket(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// 0, or errno. A connection that is under way is waited for.
int connect_once(const Socket& socket, const sockaddr* name, socklen_t bytes, Deadline deadline) {
  if (socket.fd() < 0) return errno;
  if (connect(socket.fd(), name, bytes) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wait{socket.fd(), POLLOUT, 0};
  if (poll(&wait, 1, milliseconds_until(deadline)) == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

Result<Socket> try_connect(const std::string& address, Deadline deadline) {
  int error = 0;
  if (is_path(address)) {
    INGOT_TRY(const sockaddr_un name, unix_address(address));
    Socket socket = open_socket(AF_UNIX);
    error = connect_once(socket, reinterpret_cast<const sockaddr*>(&name), sizeof name, deadline);
    if (error == 0) return socket;
  } else {
    INGOT_TRY(const Addresses found, resolve(address, false));
    for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
      Socket socket = open_socket(one->ai_family);
      error = connect_once(socket, one->ai_addr, one->ai_addrlen, deadline);
      if (error != 0) continue;
      const int yes = 1;
      setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      return socket;
    }
  }
  return Error{ErrorCode::kUnavailable, system_message(error)};
}

Result<Socket> listen_on(Socket socket, const sockaddr* name, socklen_t bytes, const std::string& address) {
  constexpr int kBacklog = 4096;
  if (socket.fd() < 0 || bind(socket.fd(), name, bytes) != 0 || listen(socket.fd(), kBacklog) != 0)
    return io_error(fmt::format("cannot listen at {}: {}", address, system_message(errno)));
  return socket;
}

Result<Socket> listen_at_path(const std::string& path) {
  INGOT_TRY(const sockaddr_un name, unix_address(path));
  const auto* generic = reinterpret_cast<const sockaddr*>(&name);
  const Socket probe = open_socket(AF_UNIX);
  const int error = connect_once(probe, generic, sizeof name, std::chrono::steady_clock::now());
  if (error == 0) return io_error(fmt::format("cannot listen at {}: another process does", path));
  if (error == ECONNREFUSED) unlink(path.c_str());
  return listen_on(open_socket(AF_UNIX), generic, sizeof name, path);
}

}  // namespace

Deadline deadline_after(std::chrono::milliseconds limit) { return std::chrono::steady_clock::now() + limit; }

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Result<Socket> listen_at(const std::string& address) {
  if (is_path(address)) return listen_at_path(address);
  INGOT_TRY(const Addresses found, resolve(address, true));
  Error last = io_error("no address");
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    Socket socket = open_socket(one->ai_family);
    const int yes = 1;
    if (socket.fd() >= 0) setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    auto listener = listen_on(std::move(socket), one->ai_addr, one->ai_addrlen, address);
    if (listener) return listener;
    last = listener.error();
  }
  return last;
}

int port_of(const Socket& listener) {
  sockaddr_storage name{};
  socklen_t bytes = sizeof name;
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&name), &bytes);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

Result<Socket> accept_from(const Socket& listener) {
  const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) return Socket(fd);
  if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return Socket();
  return io_error("cannot accept a connection: " + system_message(errno));
}

Result<Socket> connect_to(const std::string& address, Deadline deadline) {
  constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{200};
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto socket = try_connect(address, deadline);
    if (socket || socket.error().code == ErrorCode::kInvalid) return socket;
    if (std::chrono::steady_clock::now() + pause >= deadline)
      return std::move(socket).context("nobody answers at " + address);
    std::this_thread::sleep_for(pause);
  }
}

namespace {

// Moves all bytes by `move(rest)`, which does what it can; waits for `event` in between.
template <class Move>
Result<void> transfer(const Socket& socket, size_t bytes, short event, Deadline deadline, const Move& move) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t moved = move(done);
    if (moved > 0) {
      done += static_cast<size_t>(moved);
    } else if (moved == 0 && event == POLLIN) {
      return io_error("closed");
    } else if (errno == EAGAIN) {
      pollfd wait{socket.fd(), event, 0};
      if (poll(&wait, 1, milliseconds_until(deadline)) == 0) return io_error("no answer in time");
    } else if (errno != EINTR) {
      return io_error(errno == EPIPE || errno == ECONNRESET ? "closed" : system_message(errno));
    }
  }
  return {};
}

}  // namespace

Result<void> read_exactly(const Socket& socket, std::span<std::byte> bytes, Deadline deadline) {
  return transfer(socket, bytes.size(), POLLIN, deadline, [&](size_t done) {
    return recv(socket.fd(), bytes.data() + done, bytes.size() - done, 0);
  });
}

Result<void> write_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  return transfer(socket, bytes.size(), POLLOUT, deadline, [&](size_t done) {
    return send(socket.fd(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
  });
}

}  // namespace ingot
