#include "cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace ingot::cli {
namespace {

constexpr size_t kNameColumn = 16;
constexpr size_t kWidest = 100;

constexpr size_t kNarrowest = 40;
constexpr size_t kWarningColumn = 9;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

size_t columns(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), continues_character));
}

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

// Cuts at a character, not inside one.
std::string_view cut(std::string_view text, size_t width) {
  size_t columns = 0, i = 0;
  while (i < text.size() && columns < width) {
    ++i;
    while (i < text.size() && continues_character(text[i])) ++i;
    ++columns;
  }
  return text.substr(0, i);
}

}  // namespace

size_t output_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::clamp<size_t>(size.ws_col, kNarrowest, kWidest);
  return kWidest;
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

Console::Console(bool quiet) : terminal_(::isatty(STDOUT_FILENO) == 1), quiet_(quiet) {
  colour_ = terminal_ && std::getenv("NO_COLOR") == nullptr;  // NOLINT(concurrency-mt-unsafe)
}

Console::~Console() { clear_live(); }

void Console::clear_live() {
  if (live_) fmt::print("\r\033[K");
  live_ = false;
}

void Console::field(std::string_view name, std::string_view text) {
  if (quiet_) return;
  clear_live();
  // A long name (of a file) keeps two spaces to its text.
  const size_t column = std::max(kNameColumn, columns(name) + 2);
  std::string lines = wrapped(text, output_width(STDOUT_FILENO), kNameColumn);
  if (column + columns(text.substr(0, text.find('\n'))) > kWidest && column > kNameColumn)
    lines = "\n" + std::string(kNameColumn, ' ') + lines;
  fmt::print("{}{}{}\n", name, std::string(lines.front() == '\n' ? 0 : column - columns(name), ' '), lines);
  std::fflush(stdout);
}

void Console::line(std::string_view text) {
  if (quiet_) return;
  clear_live();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Console::live(std::string_view text) {
  if (quiet_ || !terminal_) return;
  fmt::print("\r\033[K{}", cut(text, output_width(STDOUT_FILENO) - 1));
  std::fflush(stdout);
  live_ = true;
}

void Console::warn(std::string_view text) {
  clear_live();
  fmt::print(stderr, "{}warning{}  {}\n", colour_ ? "\033[33m" : "", colour_ ? "\033[0m" : "",
             wrapped(text, output_width(STDERR_FILENO), kWarningColumn));
}

void Console::error(std::string_view text) {
  clear_live();
  fmt::print(stderr, "{}\n", wrapped(text, output_width(STDERR_FILENO), 0));
}

}  // namespace ingot::cli
