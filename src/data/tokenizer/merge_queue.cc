#include "data/tokenizer/merge_queue.h"

#include <algorithm>
#include <functional>

namespace ingot::data {
namespace {

uint64_t key_of(uint32_t rank, uint32_t position) { return uint64_t{rank} << 32 | position; }

}  // namespace

void MergeQueue::push(uint32_t rank, uint32_t position) {
  if (rank >= line_of_rank_.size()) line_of_rank_.resize(size_t{rank} + rank / 2 + 1, kNoLine);
  uint32_t index = line_of_rank_[rank];
  if (index == kNoLine) {
    if (free_lines_.empty()) {
      free_lines_.push_back(static_cast<uint32_t>(lines_.size()));
      lines_.emplace_back();
    }
    index = line_of_rank_[rank] = free_lines_.back();
    free_lines_.pop_back();
    ranks_.push_back(rank);
    std::push_heap(ranks_.begin(), ranks_.end(), std::greater<uint32_t>());
  }
  std::vector<uint32_t>& positions = lines_[index].positions;
  if (positions.empty() || positions.back() < position) {
    positions.push_back(position);
    return;
  }
  late_.push_back(key_of(rank, position));
  std::push_heap(late_.begin(), late_.end(), std::greater<uint64_t>());
}

std::optional<MergeQueue::Entry> MergeQueue::pop() {
  while (!ranks_.empty()) {
    const uint32_t rank = ranks_.front();
    Line& line = lines_[line_of_rank_[rank]];
    if (line.head < line.positions.size()) {
      const uint32_t position = line.positions[line.head];
      if (!late_.empty() && late_.front() < key_of(rank, position)) break;
      ++line.head;
      return Entry{rank, position};
    }
    line.positions.clear();
    line.head = 0;
    free_lines_.push_back(line_of_rank_[rank]);
    line_of_rank_[rank] = kNoLine;
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<uint32_t>());
    ranks_.pop_back();
  }
  if (late_.empty()) return std::nullopt;
  const uint64_t key = late_.front();
  std::pop_heap(late_.begin(), late_.end(), std::greater<uint64_t>());
  late_.pop_back();
  return Entry{static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key)};
}

}  // namespace ingot::data
