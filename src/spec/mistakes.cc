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

}  // namespace

std::string render_mistakes(const std::vector<Mistake>& mistakes) {
  // One very long value must not push every text off the screen.
  constexpr size_t kWidest = 40;
  size_t place_width = 0, subject_width = 0;
  for (const Mistake& one : mistakes) {
    place_width = std::max(place_width, std::min(columns(one.place), kWidest));
    subject_width = std::max(subject_width, std::min(columns(one.subject), kWidest));
  }
  std::string text;
  for (const Mistake& one : mistakes) {
    text +=
        padded(one.place, place_width) + "  " + padded(one.subject, subject_width) + "  " + one.text + "\n";
  }
  return text +
         fmt::format("{} mistake{}, nothing was started", mistakes.size(), mistakes.size() == 1 ? "" : "s");
}

}  // namespace ingot::spec
