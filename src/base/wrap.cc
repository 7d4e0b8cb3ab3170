#include "base/wrap.h"

#include <algorithm>

namespace ingot {
namespace {

// One line of the input, without its end.
void wrap_line(std::string_view line, size_t width, size_t indent, bool first, std::string* out) {
  const std::string margin(indent, ' ');
  if (!first && !line.empty()) *out += margin;
  while (columns(line) + indent > width) {
    size_t cut = std::string_view::npos;
    size_t at = line.find_first_not_of(' ');
    while ((at = line.find(' ', at)) != std::string_view::npos) {
      if (cut != std::string_view::npos && columns(line.substr(0, at)) + indent > width) break;
      cut = at;
      ++at;
    }
    if (cut == std::string_view::npos) break;
    *out += line.substr(0, cut);
    *out += "\n" + margin;
    line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
  }
  *out += line;
}

}  // namespace

size_t columns(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), continues_character));
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string out;
  for (bool first = true;; first = false) {
    const size_t end = text.find('\n');
    wrap_line(text.substr(0, end), width, indent, first, &out);
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace ingot
