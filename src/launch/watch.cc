#include "launch/watch.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

namespace ingot::launch {
namespace {

constexpr size_t kRecord = sizeof(WatchRecord);
// A peer that reads nothing is behind a cut link; it gets no more than this much to catch up with.
constexpr size_t kMostWaitingViews = 64;

static_assert(std::is_trivially_copyable_v<WatchRecord>);

}  // namespace

void WatchRecord::set_text(const std::string& said) {
  text.fill(0);
  std::memcpy(text.data(), said.data(), std::min(said.size(), text.size() - 1));
}

void WatchLine::send(const WatchRecord& record) {
  const bool droppable = record.kind == WatchRecord::Kind::kView || record.kind == WatchRecord::Kind::kAlive;
  if (droppable && out_.size() > kMostWaitingViews * kRecord) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  out_.insert(out_.end(), bytes, bytes + kRecord);
  (void)flush();  // a line that is broken is noticed by exchange()
}

bool WatchLine::flush() {
  while (!out_.empty()) {
    const ssize_t sent = ::send(socket_.fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN;
    out_.erase(out_.begin(), out_.begin() + sent);
  }
  return true;
}

bool WatchLine::exchange(std::vector<WatchRecord>* records) {
  bool open = flush();
  std::array<std::byte, 16 * kRecord> block;
  for (;;) {
    const ssize_t got = ::recv(socket_.fd(), block.data(), block.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (got < 0 && errno != EAGAIN)) open = false;
    if (got <= 0) break;
    in_.insert(in_.end(), block.begin(), block.begin() + got);
  }
  size_t used = 0;
  for (; in_.size() - used >= kRecord; used += kRecord) {
    WatchRecord record;
    std::memcpy(&record, in_.data() + used, kRecord);
    if (record.magic != WatchRecord::kMagic) return false;
    records->push_back(record);
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(used));
  return open;
}

}  // namespace ingot::launch
