#include "base/file_seam.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/file.h"

namespace ingot {
namespace {

std::string_view remedy(int code) {
  switch (code) {
    case ENOSPC:
      return "; free some space or choose another folder";
    case EDQUOT:
      return "; your quota is used up: free some space or choose another folder";
    case EACCES:
    case EPERM:
      return "; check the owner and the permissions of the path and its folders";
    case EROFS:
      return "; the file system is mounted read-only: choose another folder";
    case ENOENT:
      return "; check the spelling of the path";
    case ENOTDIR:
      return "; a part of the path is a file, not a folder";
    case EISDIR:
      return "; the path is a folder, not a file";
    case EMFILE:
    case ENFILE:
      return "; too many files are open: raise ulimit -n";
    case EIO:
      return "; the disk or its connection is failing";
    default:
      return "";
  }
}

}  // namespace

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Error system_error(std::string_view what, const std::string& path, int code) {
  const ErrorCode kind = code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return {kind,
          fmt::format("cannot {} {}: {}{}", what, path, std::generic_category().message(code), remedy(code))};
}

Result<Descriptor> open_for_writing(const std::string& path, int flags) {
  INGOT_TRY_VOID(check_fault("file.open", path));
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) return system_error("open for writing", path, errno);
  return Descriptor(fd);
}

Result<Descriptor> open_for_reading(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return system_error("open", path, errno);
  return Descriptor(fd);
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  // A fault in a write leaves the first half of it in the file: that is what a full disk and a kill do.
  const auto put = [fd, &path](std::span<const std::byte> rest) -> Result<void> {
    while (!rest.empty()) {
      const ssize_t n = ::write(fd, rest.data(), std::min<size_t>(rest.size(), size_t{1} << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error("write", path, errno);
      rest = rest.subspan(static_cast<size_t>(n));
    }
    return {};
  };
  if (bytes.empty()) return {};
  const size_t half = bytes.size() / 2;
  if (fault_is_armed()) {
    INGOT_TRY_VOID(put(bytes.first(half)));
    INGOT_TRY_VOID(check_fault("file.write", path));
    return put(bytes.subspan(half));
  }
  return put(bytes);
}

Result<void> sync_descriptor(int fd, const std::string& path) {
  INGOT_TRY_VOID(check_fault("file.fsync", path));
  // Some file systems (FUSE, some network ones) have no fsync for folders and say EINVAL.
  if (::fsync(fd) != 0 && errno != EINVAL) return system_error("flush to disk", path, errno);
  return {};
}

Result<void> sync_path(const std::string& path) {
  INGOT_TRY(const Descriptor file, open_for_reading(path, 0));
  return sync_descriptor(file.get(), path);
}

Result<void> rename_path(const std::string& from, const std::string& to) {
  INGOT_TRY_VOID(check_fault("file.rename", to));
  if (::rename(from.c_str(), to.c_str()) != 0) return system_error("rename " + from + " to", to, errno);
  return {};
}

Result<bool> exchange_paths(const std::string& a, const std::string& b) {
  INGOT_TRY_VOID(check_fault("file.rename", b));
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  return system_error("swap " + a + " with", b, errno);
}

bool lock_without_waiting(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

std::string parent_folder(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string last_name(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::vector<std::string> remove_unlocked(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> removed;
  const auto names = list_directory(folder);
  if (!names) return removed;
  for (const std::string& name : *names) {
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string path = folder + "/" + name;
    const auto file = open_for_reading(path, O_NOFOLLOW);
    if (file && lock_without_waiting(file->get()) && remove_all(path)) removed.push_back(name);
  }
  return removed;
}

}  // namespace ingot
