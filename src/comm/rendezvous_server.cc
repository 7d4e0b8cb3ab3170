#include "comm/rendezvous_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "comm/rendezvous.h"

namespace ingot::comm {
namespace {

// How long a failure is told before rank 0 leaves.
constexpr std::chrono::milliseconds kForLateComers{300};

// A whole message at the front of `buffer`, taken out; nothing when it is not complete.
std::optional<std::string> take_message(std::string& buffer) {
  uint32_t bytes = 0;
  if (buffer.size() < sizeof bytes) return {};
  std::memcpy(&bytes, buffer.data(), sizeof bytes);
  if (buffer.size() - sizeof bytes < bytes) return {};
  std::string message = buffer.substr(sizeof bytes, bytes);
  buffer.erase(0, sizeof bytes + bytes);
  return message;
}

bool too_long(const std::string& buffer) {
  uint32_t bytes = 0;
  if (buffer.size() < sizeof bytes) return false;
  std::memcpy(&bytes, buffer.data(), sizeof bytes);
  return bytes > Rendezvous::kMaxBytes;
}

std::shared_ptr<const std::string> failed_answer(const std::string& sentence) {
  std::string answer(1, kAnswerFailed);
  append_message(answer, sentence);
  return std::make_shared<const std::string>(std::move(answer));
}

}  // namespace

void append_message(std::string& to, std::string_view bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to.append(bytes);
}

RendezvousServer::RendezvousServer(Socket listener, int world, const std::string& address,
                                   std::chrono::milliseconds limit)
    : listener_(std::move(listener)),
      world_(world),
      address_(address),
      limit_(limit),
      deadline_(deadline_after(limit)),
      thread_([this] { serve(); }) {}

RendezvousServer::~RendezvousServer() {
  stop_ = true;
  thread_.join();
  if (address_.find('/') != std::string::npos) unlink(address_.c_str());
}

void RendezvousServer::serve() {
  Deadline give_up{};
  for (;;) {
    wait_for_events();
    take_connections();
    for (size_t i = 0; i < connections_.size();) {
      if (receive(connections_[i])) {
        ++i;
        continue;
      }
      const int rank = connections_[i].rank;
      connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
      if (rank >= 0 && deadline_ && !stop_)
        fail(fmt::format("rank {} left the rendezvous at {} before all had come", rank, address_));
    }
    answer_when_complete();
    if (deadline_ && std::chrono::steady_clock::now() >= *deadline_) fail(missing_ranks());
    for (Connection& connection : connections_) flush(connection);
    if (!stop_) continue;
    if (give_up == Deadline{}) give_up = deadline_after(failure_.empty() ? limit_ : kForLateComers);
    if (std::chrono::steady_clock::now() >= give_up || (failure_.empty() && all_sent())) return;
  }
}

void RendezvousServer::wait_for_events() {
  constexpr int kLookForStopMs = 10;
  std::vector<pollfd> waits = {{listener_.fd(), POLLIN, 0}};
  for (const Connection& connection : connections_) {
    const int events = POLLIN | (connection.out.empty() ? 0 : POLLOUT);
    waits.push_back({connection.socket.fd(), static_cast<short>(events), 0});
  }
  poll(waits.data(), waits.size(), kLookForStopMs);
}

void RendezvousServer::take_connections() {
  for (;;) {
    auto socket = accept_from(listener_);
    if (!socket || socket->fd() < 0) return;
    connections_.emplace_back();
    connections_.back().socket = std::move(*socket);
  }
}

bool RendezvousServer::receive(Connection& connection) {
  char block[1 << 16];
  for (;;) {
    const ssize_t got = recv(connection.socket.fd(), block, sizeof block, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    connection.in.append(block, static_cast<size_t>(got));
    if (!take_messages(connection)) return false;
  }
}

bool RendezvousServer::take_messages(Connection& connection) {
  while (!connection.brought && !connection.refused) {
    if (too_long(connection.in)) return false;
    std::optional<std::string> message = take_message(connection.in);
    if (!message) return true;
    if (connection.rank < 0) {
      Greeting greeting;
      const bool ours = message->size() == sizeof greeting &&
                        std::memcmp(message->data(), &greeting.magic, sizeof greeting.magic) == 0;
      if (!ours) return false;
      greet(connection, *message);
    } else {
      if (!deadline_) deadline_ = deadline_after(limit_);
      connection.brought = std::move(message);
    }
    if (!failure_.empty() && connection.out.empty()) connection.out.push_back(failed_answer(failure_));
  }
  return true;
}

void RendezvousServer::greet(Connection& connection, const std::string& bytes) {
  Greeting greeting;
  std::memcpy(&greeting, bytes.data(), sizeof greeting);
  const int rank = greeting.rank;
  connection.refused = true;
  if (greeting.version != Greeting::kVersion)
    return fail(
        fmt::format("rank {} speaks version {} of the rendezvous, rank 0 version {}: start the same "
                    "release of ingot everywhere",
                    rank, greeting.version, Greeting::kVersion));
  if (greeting.world != world_ || rank < 0 || rank >= world_)
    return fail(fmt::format("a process comes to {} as rank {} of {}, but rank 0 was started for {} ranks",
                            address_, rank, greeting.world, world_));
  if (std::ranges::find(connections_, rank, &Connection::rank) != connections_.end())
    return fail(fmt::format("two processes come to {} as rank {} of {}", address_, rank, world_));
  connection.refused = false;
  connection.rank = rank;
}

void RendezvousServer::flush(Connection& connection) {
  while (!connection.out.empty()) {
    const std::string_view rest = std::string_view(*connection.out.front()).substr(connection.sent);
    const ssize_t sent = send(connection.socket.fd(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) connection.out.clear();  // receive() notices its end
      return;
    }
    connection.sent += static_cast<size_t>(sent);
    if (connection.sent < connection.out.front()->size()) continue;
    connection.out.pop_front();
    connection.sent = 0;
  }
}

void RendezvousServer::answer_when_complete() {
  const auto here = std::ranges::count_if(
      connections_, [](const Connection& one) { return one.rank >= 0 && one.brought.has_value(); });
  if (here < world_) return;
  std::vector<const std::string*> parts(static_cast<size_t>(world_));
  for (const Connection& connection : connections_)
    if (connection.rank >= 0) parts[static_cast<size_t>(connection.rank)] = &*connection.brought;
  std::string answer(1, kAnswerParts);
  for (const std::string* part : parts) append_message(answer, *part);
  const auto shared = std::make_shared<const std::string>(std::move(answer));
  for (Connection& connection : connections_) {
    if (connection.rank < 0) continue;
    connection.brought.reset();
    connection.out.push_back(shared);
  }
  deadline_.reset();
}

void RendezvousServer::fail(const std::string& sentence) {
  deadline_.reset();
  if (failure_.empty()) failure_ = sentence;
  for (Connection& connection : connections_) connection.out.push_back(failed_answer(failure_));
}

std::string RendezvousServer::missing_ranks() const {
  constexpr size_t kNamed = 8;
  std::string names;
  size_t missing = 0;
  for (int rank = 0; rank < world_; ++rank) {
    const auto found = std::ranges::find(connections_, rank, &Connection::rank);
    if (found != connections_.end() && found->brought) continue;
    if (++missing <= kNamed) names += fmt::format("{}{}", missing > 1 ? ", " : "", rank);
  }
  if (missing > kNamed) names += fmt::format(" and {} more", missing - kNamed);
  return fmt::format("rank{} {} of {} {} not come to {} for {:.1f} s", missing > 1 ? "s" : "", names, world_,
                     missing > 1 ? "have" : "has", address_, static_cast<double>(limit_.count()) / 1000);
}

bool RendezvousServer::all_sent() const {
  return std::ranges::all_of(connections_, [](const Connection& one) { return one.out.empty(); });
}

}  // namespace ingot::comm
