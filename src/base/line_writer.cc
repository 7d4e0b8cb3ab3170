#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.h"
#include "base/file_seam.h"

namespace ingot {
namespace {

// Offset just after the last newline, 0 when there is none.
Result<int64_t> end_of_whole_lines(int fd, const std::string& path) {
  int64_t end = ::lseek(fd, 0, SEEK_END);
  if (end < 0) return system_error("examine", path, errno);
  std::array<char, 4096> block;
  while (end > 0) {
    const int64_t begin = std::max<int64_t>(0, end - static_cast<int64_t>(block.size()));
    const ssize_t n = ::pread(fd, block.data(), static_cast<size_t>(end - begin), begin);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read", path, errno);
    if (n == 0) return begin;
    for (ssize_t i = n; i > 0; --i) {
      if (block[static_cast<size_t>(i - 1)] == '\n') return begin + i;
    }
    end = begin;
  }
  return int64_t{0};
}

}  // namespace

struct LineWriter::State {
  std::string path;
  Descriptor file;
  std::string buffer;
  int64_t bytes = 0;  // whole lines only
};

LineWriter::LineWriter() : state_(std::make_unique<State>()) {}
LineWriter::LineWriter(LineWriter&&) noexcept = default;
LineWriter& LineWriter::operator=(LineWriter&&) noexcept = default;
LineWriter::~LineWriter() = default;

Result<LineWriter> LineWriter::open(const std::string& path) {
  LineWriter result;
  State& s = *result.state_;
  s.path = path;
  INGOT_TRY(s.file, open_for_writing(path, O_RDWR | O_CREAT | O_APPEND));
  INGOT_TRY(s.bytes, end_of_whole_lines(s.file.get(), path));
  if (::ftruncate(s.file.get(), s.bytes) != 0) return system_error("cut the torn last line of", path, errno);
  return result;
}

Result<void> LineWriter::append(std::string_view line) {
  INGOT_CHECK(line.find('\n') == std::string_view::npos, "a line with a newline for {}: {}", state_->path,
              line);
  State& s = *state_;
  s.buffer.assign(line);
  s.buffer.push_back('\n');
  auto result = write_all(s.file.get(), std::as_bytes(std::span<const char>(s.buffer)), s.path);
  if (result) {
    s.bytes += static_cast<int64_t>(s.buffer.size());
  } else if (::ftruncate(s.file.get(), s.bytes) != 0) {
    return system_error("cut the torn last line of", s.path, errno);
  }
  return result;
}

}  // namespace ingot
