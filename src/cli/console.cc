#include "cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/wrap.h"

namespace ingot::cli {
namespace {

constexpr size_t kNameColumn = 16;
constexpr size_t kWidest = 100;

constexpr size_t kNarrowest = 40;
constexpr size_t kWarningColumn = 9;

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

// Seen at once by who watches. What cannot be written ends no training: main.cc says it at the end.
void show(std::string_view text) {
  (void)print_out(text);
  (void)std::fflush(stdout);
}

void complain(const std::string& text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

size_t output_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::clamp<size_t>(size.ws_col, kNarrowest, kWidest);
  return kWidest;
}

Result<void> print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::ferror(stdout) == 0) return {};
  return io_error(std::string(kOutputFailed));
}

Console::Console(bool quiet) : terminal_(::isatty(STDOUT_FILENO) == 1), quiet_(quiet) {
  colour_ = terminal_ && std::getenv("NO_COLOR") == nullptr;  // NOLINT(concurrency-mt-unsafe)
}

Console::~Console() { clear_live(); }

void Console::clear_live() {
  if (live_) (void)print_out("\r\033[K");
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
  show(fmt::format("{}{}{}\n", name, std::string(lines.front() == '\n' ? 0 : column - columns(name), ' '),
                   lines));
}

void Console::line(std::string_view text) {
  if (quiet_) return;
  clear_live();
  show(fmt::format("{}\n", text));
}

void Console::live(std::string_view text) {
  if (quiet_ || !terminal_) return;
  show(fmt::format("\r\033[K{}", cut(text, output_width(STDOUT_FILENO) - 1)));
  live_ = true;
}

void Console::warn(std::string_view text) {
  clear_live();
  complain(fmt::format("{}warning{}  {}\n", colour_ ? "\033[33m" : "", colour_ ? "\033[0m" : "",
                       wrapped(text, output_width(STDERR_FILENO), kWarningColumn)));
}

void Console::error(std::string_view text) {
  clear_live();
  complain(wrapped(text, output_width(STDERR_FILENO), 0) + "\n");
}

}  // namespace ingot::cli
