#pragma once
// One process at a time in a folder. The system gives a lock back when its process ends, however it ends.

#include <string>

#include "base/result.h"

namespace ingot {

class FileLock {
 public:
  // Makes `path` where it is not there and locks it without waiting. kUnavailable when another process holds
  // it, kIo when the file cannot be made.
  static Result<FileLock> take(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace ingot
