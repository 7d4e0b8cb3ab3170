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

size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::min<size_t>(size.ws_col, kWidest);
  return kWidest;
}

// Cuts at a character, not inside one.
std::string_view cut(std::string_view text, size_t width) {
  size_t columns = 0, i = 0;
  while (i < text.size() && columns < width) {
    ++i;
    while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U) ++i;
    ++columns;
  }
  return text.substr(0, i);
}

}  // namespace

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
  std::string_view left = name;
  for (;;) {
    const size_t end = text.find('\n');
    fmt::print("{:<{}}{}\n", left, kNameColumn, text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    left = "";
  }
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
  fmt::print("\r\033[K{}", cut(text, terminal_width() - 1));
  std::fflush(stdout);
  live_ = true;
}

void Console::warn(std::string_view text) {
  clear_live();
  fmt::print(stderr, "{}warning{}  {}\n", colour_ ? "\033[33m" : "", colour_ ? "\033[0m" : "", text);
}

void Console::error(std::string_view text) {
  clear_live();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace ingot::cli
