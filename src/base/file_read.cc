#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/file_seam.h"

namespace ingot {
namespace {

Result<int64_t> regular_file_bytes(int fd, const std::string& path) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return system_error("examine", path, errno);
  if (S_ISDIR(status.st_mode)) return system_error("read", path, EISDIR);
  return int64_t{status.st_size};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  INGOT_TRY(const Descriptor file, open_for_reading(path, 0));
  INGOT_TRY(const int64_t size, regular_file_bytes(file.get(), path));
  // The size is a hint only: files of /proc say 0, and a file may grow.
  std::string text(static_cast<size_t>(size) + 1, '\0');
  size_t used = 0;
  while (true) {
    if (used == text.size()) text.resize(std::max<size_t>(4096, text.size() * 2));
    const ssize_t n = ::read(file.get(), text.data() + used, text.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read", path, errno);
    if (n == 0) break;
    used += static_cast<size_t>(n);
  }
  text.resize(used);
  return text;
}

bool path_exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

Result<int64_t> file_bytes(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return system_error("examine", path, errno);
  if (S_ISDIR(status.st_mode)) return system_error("read", path, EISDIR);
  return int64_t{status.st_size};
}

Result<void> make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return system_error("make folder", path, error.value());
  if (!std::filesystem::is_directory(path, error)) return system_error("make folder", path, ENOTDIR);
  return {};
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(path, error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return system_error("list folder", path, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

Result<void> remove_all(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return system_error("remove", path, error.value());
  return {};
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  INGOT_TRY(const Descriptor file, open_for_reading(path, 0));
  INGOT_TRY(const int64_t size, regular_file_bytes(file.get(), path));
  MappedFile mapped;
  if (size == 0) return mapped;
  const auto bytes = static_cast<size_t>(size);
  void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return system_error("map", path, errno);
  mapped.bytes_ = {static_cast<const std::byte*>(address), bytes};
  return mapped;
}

void MappedFile::release(std::span<const std::byte> read) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(read.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(read.data() + read.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ingot
