#pragma once
// What agents tell each other: fixed-size records over one connection from each agent to that of rank 0,
// the hub. Nothing here decides anything, and no call blocks: what cannot be sent now is sent later, views
// that are overtaken not at all.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/socket.h"
#include "launch/stuck.h"

namespace ingot::launch {

struct WatchRecord {
  enum class Kind : uint32_t {
    kHello,     // to the hub, first: rank is watched by the sender; code holds the world
    kView,      // to the hub: view
    kEnded,     // to the hub: rank ended with code or signal
    kAlive,     // from the hub, every second
    kVerdict,   // from the hub: the world ends because of rank (or none), with code, because of text
    kAllEnded,  // from the hub: all ranks ended in order
  };
  static constexpr uint64_t kMagic = 0x31776f67'6e690001;  // with the version of these records
  uint64_t magic = kMagic;
  Kind kind = Kind::kAlive;
  int32_t rank = -1;
  int32_t code = 0, signal = 0;
  RankView view = {};
  std::array<char, 512> text{};

  void set_text(const std::string& said);
};

class WatchLine {
 public:
  explicit WatchLine(Socket socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.fd(); }
  void send(const WatchRecord& record);
  // What has arrived since; false once the other end is gone or talks something else. Sends what waits.
  bool exchange(std::vector<WatchRecord>* records);
  bool drained() const { return out_.empty(); }

  std::vector<int> ranks;  // of the agent at the other end, by its hellos

 private:
  bool flush();
  Socket socket_;
  std::vector<std::byte> in_, out_;
};

}  // namespace ingot::launch
