#pragma once
// The waiting pairs of the merging of a long piece, in order of (rank, position). A heap of them all would
// touch memory at random; here each rank has its own first-in-first-out queue, since positions of one rank
// nearly always come in ascending order, and the few that do not go through a small heap.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ingot::data {

class MergeQueue {
 public:
  struct Entry {
    uint32_t rank;
    uint32_t position;
  };

  void push(uint32_t rank, uint32_t position);
  std::optional<Entry> pop();  // the lowest; nothing when empty

 private:
  struct Line {
    std::vector<uint32_t> positions;  // ascending
    size_t head = 0;
  };
  static constexpr uint32_t kNoLine = 0xffffffff;

  std::vector<uint32_t> line_of_rank_;  // index in lines_, or kNoLine
  std::vector<Line> lines_;
  std::vector<uint32_t> free_lines_;
  std::vector<uint32_t> ranks_;  // heap of the ranks that have a line
  std::vector<uint64_t> late_;   // heap of rank << 32 | position that came out of order
};

}  // namespace ingot::data
