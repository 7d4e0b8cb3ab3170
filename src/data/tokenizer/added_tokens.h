#pragma once
// Finds the tokens that are matched in text before any pattern: leftmost, and of those the longest.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::data {

struct FoundToken {
  size_t begin = 0;
  size_t bytes = 0;
  uint32_t id = 0;
};

class TokenFinder {
 public:
  void add(std::string content, uint32_t id);  // content is not empty
  bool empty() const { return tokens_.empty(); }
  std::optional<FoundToken> find(std::string_view text, size_t from) const;

 private:
  struct Entry {
    std::string content;
    uint32_t id;
  };
  std::vector<Entry> tokens_;  // longest first
  std::string first_bytes_;    // distinct
};

}  // namespace ingot::data
