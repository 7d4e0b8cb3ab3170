#pragma once
// The side of rank 0 in a rendezvous: one thread that serves all connections. Internal to comm.
//
// On the wire, little-endian: a message is its length (u32) and that many bytes. A rank first sends Greeting,
// then per exchange what it brings; the answer is one byte, kAnswerParts followed by one message for each
// rank, or kAnswerFailed followed by a sentence.

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"

namespace ingot::comm {

struct Greeting {
  static constexpr uint32_t kMagic = 0x54474e49;  // "INGT"
  static constexpr uint32_t kVersion = 1;
  uint32_t magic = kMagic, version = kVersion;
  int32_t rank = 0, world = 0;
};
inline constexpr char kAnswerParts = 1, kAnswerFailed = 2;

void append_message(std::string& to, std::string_view bytes);

class RendezvousServer {
 public:
  // `limit` is how long it waits for ranks that have not come to an exchange that another has come to; for
  // the first, from now.
  RendezvousServer(Socket listener, int world, const std::string& address, std::chrono::milliseconds limit);
  ~RendezvousServer();  // sends what is still to be sent

 private:
  using Answer = std::shared_ptr<const std::string>;  // shared: one of megabytes goes to thousands of ranks
  struct Connection {
    Socket socket;
    int rank = -1;         // until its greeting
    bool refused = false;  // its greeting was wrong: only told why
    std::string in;
    std::deque<Answer> out;
    size_t sent = 0;                     // bytes of out.front()
    std::optional<std::string> brought;  // to the exchange that is open
  };
  void serve();
  void wait_for_events();
  void take_connections();
  // False when the connection is over.
  bool receive(Connection& connection);
  bool take_messages(Connection& connection);
  void greet(Connection& connection, const std::string& bytes);
  static void flush(Connection& connection);
  void answer_when_complete();
  void fail(const std::string& sentence);
  std::string missing_ranks() const;
  bool all_sent() const;

  const Socket listener_;
  const int world_;
  const std::string address_;
  const std::chrono::milliseconds limit_;
  std::atomic<bool> stop_ = false;
  // Of the thread.
  std::vector<Connection> connections_;
  std::optional<Deadline> deadline_;
  std::string failure_;  // told to all that come
  std::thread thread_;
};

}  // namespace ingot::comm
