#include <fmt/format.h>

#include <algorithm>

#include "base/wrap.h"
#include "spec/config.h"

namespace ingot::spec {
namespace {

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, columns(text)), ' ');
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
    text += wrapped(one.text, kScreen, column) + "\n";
  }
  return text +
         fmt::format("{} mistake{}, nothing was started", mistakes.size(), mistakes.size() == 1 ? "" : "s");
}

}  // namespace ingot::spec
