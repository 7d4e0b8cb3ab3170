#include <fmt/format.h>

#include <algorithm>

#include "spec/config.h"

namespace ingot::spec {
namespace {

// Columns on a terminal: bytes that do not continue a UTF-8 character.
size_t columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, columns(text)), ' ');
}

// Cut at spaces to `width` columns, every line after the first behind `indent` spaces.
std::string folded(const std::string& text, size_t width, size_t indent) {
  std::string out, line;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && columns(line) + 1 + columns(word) > width) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line;
}

}  // namespace

std::string render_mistakes(const std::vector<Mistake>& mistakes) {
  // One very long value must not push every text off the screen.
  constexpr size_t kWidest = 40, kScreen = 100, kNarrowest = 36;
  size_t place_width = 0, subject_width = 0;
  for (const Mistake& one : mistakes) {
    place_width = std::max(place_width, std::min(columns(one.place), kWidest));
    subject_width = std::max(subject_width, std::min(columns(one.subject), kWidest));
  }
  std::string text;
  for (const Mistake& one : mistakes) {
    const std::string left =
        padded(one.place, place_width) + "  " + padded(one.subject, subject_width) + "  ";
    size_t column = columns(left);
    text += left;
    if (column + std::min(kNarrowest, columns(one.text)) > kScreen) {
      column = place_width + 4;
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n" + std::string(column, ' ');
    }
    text += folded(one.text, kScreen - column, column) + "\n";
  }
  return text +
         fmt::format("{} mistake{}, nothing was started", mistakes.size(), mistakes.size() == 1 ? "" : "s");
}

}  // namespace ingot::spec
