#include "launch/board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

namespace ingot::launch {

struct Board::Slot {
  comm::ProgressPage page;
  alignas(64) RankNote note;
};

struct alignas(128) Board::Header {
  static constexpr uint64_t kMagic = 0x1d0b0a2d746f676e;
  uint64_t magic = kMagic;
  int32_t ranks = 0;
  Slot* slots() { return std::launder(reinterpret_cast<Slot*>(this + 1)); }
};

void RankNote::set_run_dir(const std::string& path) {
  if (path.empty() || path.size() > kMaxPath) return;
  std::memcpy(run_dir, path.data(), path.size());
  run_dir_bytes.store(static_cast<uint32_t>(path.size()), std::memory_order_release);
}

std::string RankNote::read_run_dir() const {
  const uint32_t bytes = run_dir_bytes.load(std::memory_order_acquire);
  return {run_dir, std::min<size_t>(bytes, kMaxPath)};
}

Result<Board> Board::map(int descriptor, size_t bytes) {
  Board board;
  board.descriptor_ = descriptor;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED)
    return io_error(fmt::format("cannot map the ranks' pages: {}", std::generic_category().message(errno)));
  board.bytes_ = bytes;
  board.header_ = static_cast<Header*>(memory);
  return board;
}

Result<Board> Board::create(int ranks) {
  const size_t bytes = sizeof(Header) + sizeof(Slot) * static_cast<size_t>(ranks);
  const int descriptor = ::memfd_create("ingot-ranks", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const std::string reason = std::generic_category().message(errno);
    if (descriptor >= 0) ::close(descriptor);
    return io_error(fmt::format("cannot make {} bytes of shared memory for the ranks: {}", bytes, reason));
  }
  INGOT_TRY(Board board, map(descriptor, bytes));
  new (board.header_) Header{.ranks = ranks};
  for (int i = 0; i < ranks; ++i) new (board.header_->slots() + i) Slot();
  return board;
}

Result<Board> Board::open(int descriptor) {
  struct stat facts {};
  const bool is_one = ::fstat(descriptor, &facts) == 0 && facts.st_size > static_cast<off_t>(sizeof(Header));
  if (!is_one) return invalid(fmt::format("descriptor {} is no memory of an agent's ranks", descriptor));
  (void)::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  INGOT_TRY(Board board, map(descriptor, static_cast<size_t>(facts.st_size)));
  if (board.header_->magic != Header::kMagic ||
      board.bytes_ != sizeof(Header) + sizeof(Slot) * static_cast<size_t>(board.header_->ranks))
    return invalid("the agent is of another version of ingot than this rank");
  return board;
}

Board::Board(Board&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      header_(std::exchange(other.header_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Board& Board::operator=(Board&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(header_, other.header_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Board::~Board() {
  if (header_ != nullptr) ::munmap(header_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

int Board::ranks() const { return header_ != nullptr ? header_->ranks : 0; }

Board::Slot& Board::slot(int local_rank) const {
  INGOT_CHECK(local_rank >= 0 && local_rank < ranks(), "local rank {} of {}", local_rank, ranks());
  return header_->slots()[local_rank];
}

comm::ProgressPage& Board::page(int local_rank) const { return slot(local_rank).page; }
RankNote& Board::note(int local_rank) const { return slot(local_rank).note; }

}  // namespace ingot::launch
