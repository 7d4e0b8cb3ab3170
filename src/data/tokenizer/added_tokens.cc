#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace ingot::data {

void TokenFinder::add(std::string content, uint32_t id) {
  INGOT_CHECK(!content.empty(), "added token {} is empty", id);
  if (first_bytes_.find(content[0]) == std::string::npos) first_bytes_ += content[0];
  const auto place = std::find_if(tokens_.begin(), tokens_.end(),
                                  [&](const Entry& entry) { return entry.content.size() < content.size(); });
  tokens_.insert(place, {std::move(content), id});
}

std::optional<FoundToken> TokenFinder::find(std::string_view text, size_t from) const {
  for (;; ++from) {
    from =
        first_bytes_.size() == 1 ? text.find(first_bytes_[0], from) : text.find_first_of(first_bytes_, from);
    if (from == std::string_view::npos) return std::nullopt;
    for (const Entry& entry : tokens_) {
      if (text.substr(from, entry.content.size()) == entry.content) {
        return FoundToken{from, entry.content.size(), entry.id};
      }
    }
  }
}

}  // namespace ingot::data
