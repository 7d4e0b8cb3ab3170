#include "comm/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/socket.h"
#include "comm/rendezvous_server.h"

namespace ingot::comm {
namespace {

// The server's sentence, which names ranks, is to come before a rank's own limit.
constexpr std::chrono::milliseconds kForTheServer{2000};

Error fault(std::string message) { return {ErrorCode::kFault, std::move(message)}; }

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Result<std::string> read_message(const Socket& socket, Deadline deadline) {
  uint32_t bytes = 0;
  INGOT_TRY_VOID(read_exactly(socket, bytes_of(bytes), deadline));
  if (bytes > Rendezvous::kMaxBytes) return io_error(fmt::format("it sends a message of {} bytes", bytes));
  std::string message(bytes, '\0');
  INGOT_TRY_VOID(read_exactly(socket, std::as_writable_bytes(std::span(message)), deadline));
  return message;
}

Result<void> write_message(const Socket& socket, std::string_view bytes, Deadline deadline) {
  std::string framed;
  append_message(framed, bytes);
  return write_all(socket, std::as_bytes(std::span(framed)), deadline);
}

}  // namespace

struct Rendezvous::Client {
  int world;
  std::string address;
  Socket socket;

  Error lost(const Error& error) const {
    return fault(fmt::format("the rendezvous of rank 0 at {} is gone ({})", address, error.message));
  }
};

Rendezvous::Rendezvous() = default;
Rendezvous::~Rendezvous() = default;

Result<std::unique_ptr<Rendezvous>> Rendezvous::join(int rank, int world, const std::string& address,
                                                     std::chrono::milliseconds limit) {
  INGOT_CHECK(world >= 1 && rank >= 0 && rank < world, "rank {} of {}", rank, world);
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous);
  const Deadline deadline = deadline_after(limit + (rank == 0 ? std::chrono::milliseconds{} : kForTheServer));
  if (rank == 0) {
    auto listener = listen_at(address);
    if (!listener)
      return std::move(std::move(listener).context("rank 0 cannot meet the others")).take_error();
    rendezvous->server_ = std::make_unique<RendezvousServer>(std::move(*listener), world, address, limit);
  }
  auto socket = connect_to(address, deadline);
  if (!socket)
    return Error{socket.error().code == ErrorCode::kInvalid ? ErrorCode::kInvalid : ErrorCode::kFault,
                 fmt::format("rank {} finds no rank 0: {}", rank, socket.error().message)};
  rendezvous->client_ = std::make_unique<Client>(Client{world, address, std::move(*socket)});
  Greeting greeting;
  greeting.rank = rank;
  greeting.world = world;
  const std::string_view bytes(reinterpret_cast<const char*>(&greeting), sizeof greeting);
  if (auto sent = write_message(rendezvous->client_->socket, bytes, deadline); !sent)
    return rendezvous->client_->lost(sent.error());
  return rendezvous;
}

Result<std::vector<std::string>> Rendezvous::exchange(const std::string& own,
                                                      std::chrono::milliseconds limit) {
  INGOT_CHECK(own.size() <= kMaxBytes, "{} bytes for an exchange", own.size());
  const Deadline deadline = deadline_after(limit + kForTheServer);
  const Socket& socket = client_->socket;
  if (auto sent = write_message(socket, own, deadline); !sent) return client_->lost(sent.error());
  char kind = 0;
  if (auto got = read_exactly(socket, bytes_of(kind), deadline); !got) return client_->lost(got.error());
  std::vector<std::string> parts;
  for (int rank = 0; rank < (kind == kAnswerParts ? client_->world : 1); ++rank) {
    auto part = read_message(socket, deadline);
    if (!part) return client_->lost(part.error());
    parts.push_back(std::move(*part));
  }
  if (kind != kAnswerParts) return fault(parts[0]);
  return parts;
}

}  // namespace ingot::comm
