#pragma once
// The system calls that change files, each behind a named fault point. Internal to base: callers use
// base/file.h.

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ingot {

// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// "cannot <what> <path>: <reason>; <remedy>" with the code that fits errno value `code`.
Error system_error(std::string_view what, const std::string& path, int code);

bool fault_is_armed();

Result<Descriptor> open_for_writing(const std::string& path, int flags);  // point file.open
Result<Descriptor> open_for_reading(const std::string& path, int flags);  // no point
Result<void> write_all(int fd, std::span<const std::byte> bytes,
                       const std::string& path);                           // point file.write
Result<void> sync_descriptor(int fd, const std::string& path);             // point file.fsync
Result<void> sync_path(const std::string& path);                           // a file or a folder
Result<void> rename_path(const std::string& from, const std::string& to);  // point file.rename
// Swaps two paths in one step where the file system can; false where it cannot. Point file.rename.
Result<bool> exchange_paths(const std::string& a, const std::string& b);

bool lock_without_waiting(int fd);  // true when the lock is now ours; it ends with the descriptor
std::string parent_folder(const std::string& path);
std::string last_name(const std::string& path);
// Removes what is called "<prefix><anything>" in `folder` and is locked by nobody; best effort, names in
// order.
std::vector<std::string> remove_unlocked(const std::string& folder, std::string_view prefix);

}  // namespace ingot
