#include "comm/progress_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ingot::comm {
namespace {

constexpr size_t kWords = sizeof(ProgressPage::words) / sizeof(int64_t), kBytes = kWords * sizeof(int64_t);

}  // namespace

void ProgressPage::say(std::string_view operation, std::string_view what) {
  std::array<char, kBytes> text{};  // the operation, a zero, what it moves
  const size_t first = std::min(operation.size(), kBytes - 1),
               second = std::min(what.size(), kBytes - first - 1);
  std::memcpy(text.data(), operation.data(), first);
  std::memcpy(text.data() + first + 1, what.data(), second);
  for (size_t i = 0; i < kWords; ++i) {
    int64_t word = 0;
    std::memcpy(&word, text.data() + i * sizeof word, sizeof word);
    words[i].store(word, std::memory_order_relaxed);
  }
}

std::string ProgressPage::said() const {
  std::array<char, kBytes + 1> text{};
  for (size_t i = 0; i < kWords; ++i) {
    const int64_t word = words[i].load(std::memory_order_relaxed);
    std::memcpy(text.data() + i * sizeof word, &word, sizeof word);
  }
  const std::string operation = text.data();
  if (operation.empty()) return operation;
  const std::string what = operation.size() < kBytes ? text.data() + operation.size() + 1 : "";
  const int32_t id = instruction.load(std::memory_order_relaxed);
  return fmt::format("{}{}{}", operation, id >= 0 ? fmt::format(" #{}", id) : "",
                     what.empty() ? "" : fmt::format(" ({})", what));
}

}  // namespace ingot::comm
