#pragma once
// What the ranks of a node show to their agent: anonymous shared memory with a progress page and a note for
// each. It is gone with the last process that holds it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "comm/progress_page.h"

namespace ingot::launch {

// What a rank says of itself once, or seldom.
struct RankNote {
  static constexpr size_t kMaxPath = 1000;
  // How long others may wait for a rank that cannot go on, whatever they wait in; 0: as long as their call
  // says.
  std::atomic<int64_t> patience_ns{0};
  std::atomic<uint32_t> run_dir_bytes{0};
  char run_dir[kMaxPath] = {};  // valid once run_dir_bytes is not 0

  void set_run_dir(const std::string& path);  // longer ones are left out
  std::string read_run_dir() const;
};

class Board {
 public:
  static Result<Board> create(int ranks);
  // One that this process inherited. Errors: it is none.
  static Result<Board> open(int descriptor);
  Board() = default;
  Board(Board&& other) noexcept;
  Board& operator=(Board&& other) noexcept;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board();

  int ranks() const;
  int descriptor() const { return descriptor_; }  // closed on exec
  comm::ProgressPage& page(int local_rank) const;
  RankNote& note(int local_rank) const;

 private:
  struct Header;
  struct Slot;
  static Result<Board> map(int descriptor, size_t bytes);
  Slot& slot(int local_rank) const;
  int descriptor_ = -1;
  Header* header_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace ingot::launch
