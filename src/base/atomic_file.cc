#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/file.h"
#include "base/file_seam.h"

namespace ingot {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr std::string_view kPartialMark = ".partial-";

// Two writers of one process may write one path, one after the other or at once.
std::string temporary_name(const std::string& path) {
  static std::atomic<int> serial{0};
  return fmt::format("{}{}{}-{}", path, kTemporaryMark, ::getpid(), serial.fetch_add(1));
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// Children before their folder, so that a folder is flushed when all its entries are there.
Result<void> sync_tree(const std::string& folder) {
  INGOT_TRY(const std::vector<std::string> names, list_directory(folder));
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    const auto status = std::filesystem::symlink_status(path, error);
    if (error) return system_error("examine", path, error.value());
    if (std::filesystem::is_directory(status)) {
      INGOT_TRY_VOID(sync_tree(path));
    } else if (std::filesystem::is_regular_file(status)) {
      INGOT_TRY_VOID(sync_path(path));
    }
  }
  return sync_path(folder);
}

}  // namespace

struct AtomicFile::State {
  std::string path, temporary;
  Descriptor file;
  std::vector<std::byte> buffer;
  int64_t written = 0;
  std::optional<Error> failed;  // of an earlier write: commit must not rename half a file

  ~State() {
    if (file.is_open()) ::unlink(temporary.c_str());
  }

  Result<void> put(std::span<const std::byte> bytes) {
    if (failed) return *failed;
    auto result = write_all(file.get(), bytes, temporary);
    if (!result) failed = result.error();
    return result;
  }

  Result<void> flush() {
    auto result = put(buffer);
    buffer.clear();
    return result;
  }
};

AtomicFile::AtomicFile() : state_(std::make_unique<State>()) {}
AtomicFile::AtomicFile(AtomicFile&&) noexcept = default;
AtomicFile& AtomicFile::operator=(AtomicFile&&) noexcept = default;
AtomicFile::~AtomicFile() = default;

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  remove_unlocked(parent_folder(path), last_name(path) + std::string(kTemporaryMark));
  AtomicFile result;
  State& s = *result.state_;
  s.path = path;
  s.temporary = temporary_name(path);
  INGOT_TRY(s.file, open_for_writing(s.temporary, O_WRONLY | O_CREAT | O_TRUNC));
  lock_without_waiting(
      s.file.get());  // says that a living process writes here; a file system without locks is fine
  return result;
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  INGOT_CHECK(state_ && state_->file.is_open(), "write of {} bytes after commit", bytes.size());
  State& s = *state_;
  s.written += static_cast<int64_t>(bytes.size());
  if (s.buffer.size() + bytes.size() <= kBufferBytes) {
    s.buffer.insert(s.buffer.end(), bytes.begin(), bytes.end());
    return {};
  }
  INGOT_TRY_VOID(s.flush());
  if (bytes.size() > kBufferBytes) return s.put(bytes);
  s.buffer.assign(bytes.begin(), bytes.end());
  return {};
}

Result<void> AtomicFile::write(std::string_view text) { return write(as_bytes(text)); }

int64_t AtomicFile::written() const { return state_->written; }

Result<void> AtomicFile::commit() {
  INGOT_CHECK(state_ && state_->file.is_open(), "commit of a file that was committed before");
  State& s = *state_;
  INGOT_TRY_VOID(s.flush());
  INGOT_TRY_VOID(sync_descriptor(s.file.get(), s.temporary));
  INGOT_TRY_VOID(check_fault("atomic_file.before_rename", s.path));
  INGOT_TRY_VOID(rename_path(s.temporary, s.path));
  s.file.close();
  INGOT_TRY_VOID(check_fault("atomic_file.after_rename", s.path));
  return sync_path(parent_folder(s.path));
}

Result<void> write_file_atomically(const std::string& path, std::string_view text) {
  INGOT_TRY(AtomicFile file, AtomicFile::create(path));
  INGOT_TRY_VOID(file.write(text));
  return file.commit();
}

struct AtomicDirectory::State {
  std::string path, staging;
  Descriptor lock;
  bool replace = false;

  ~State() {
    // Best effort: what stays is removed by the next create or by remove_leftovers.
    if (lock.is_open()) static_cast<void>(remove_all(staging).has_value());
  }
};

AtomicDirectory::AtomicDirectory() : state_(std::make_unique<State>()) {}
AtomicDirectory::AtomicDirectory(AtomicDirectory&&) noexcept = default;
AtomicDirectory& AtomicDirectory::operator=(AtomicDirectory&&) noexcept = default;
AtomicDirectory::~AtomicDirectory() = default;

Result<AtomicDirectory> AtomicDirectory::create(const std::string& given, bool replace) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!replace && path_exists(path)) {
    return invalid(fmt::format("{} exists already; remove it, or choose another name", path));
  }
  const std::string parent = parent_folder(path);
  INGOT_TRY_VOID(make_directories(parent));
  remove_unlocked(parent, last_name(path) + std::string(kPartialMark));
  AtomicDirectory result;
  State& s = *result.state_;
  s.path = path;
  s.replace = replace;
  s.staging = fmt::format("{}{}{}", path, kPartialMark, ::getpid());
  if (path_exists(s.staging)) {
    return io_error(
        fmt::format("{} is being written by another process; wait for it, or stop it", s.staging));
  }
  INGOT_TRY_VOID(check_fault("file.open", s.staging));
  INGOT_TRY_VOID(make_directories(s.staging));
  INGOT_TRY(s.lock, open_for_reading(s.staging, O_DIRECTORY));
  lock_without_waiting(s.lock.get());
  return result;
}

const std::string& AtomicDirectory::staging_path() const { return state_->staging; }

Result<void> AtomicDirectory::commit() {
  INGOT_CHECK(state_ && state_->lock.is_open(), "commit of a folder that was committed before");
  State& s = *state_;
  INGOT_TRY_VOID(sync_tree(s.staging));
  INGOT_TRY_VOID(check_fault("atomic_directory.before_rename", s.path));
  const bool old_exists = path_exists(s.path);
  if (old_exists && !s.replace) {
    return invalid(
        fmt::format("{} came to exist while it was written; remove it, or choose another name", s.path));
  }
  bool swapped = false;
  if (old_exists) {
    INGOT_TRY(swapped, exchange_paths(s.staging, s.path));
    // Without an exchange there is a moment with neither; what was old is then still there under its staging
    // name.
    if (!swapped) INGOT_TRY_VOID(rename_path(s.path, s.path + std::string(kPartialMark) + "old"));
  }
  if (!swapped) INGOT_TRY_VOID(rename_path(s.staging, s.path));
  s.lock.close();
  INGOT_TRY_VOID(check_fault("atomic_directory.after_rename", s.path));
  INGOT_TRY_VOID(sync_path(parent_folder(s.path)));
  if (swapped) return remove_all(s.staging);
  if (old_exists) return remove_all(s.path + std::string(kPartialMark) + "old");
  return {};
}

Result<std::vector<std::string>> remove_leftovers(const std::string& folder) {
  INGOT_TRY(const std::vector<std::string> names, list_directory(folder));
  std::vector<std::string> removed;
  for (const std::string& name : names) {
    if (name.find(kTemporaryMark) == std::string::npos && name.find(kPartialMark) == std::string::npos)
      continue;
    // The whole name as prefix: it matches itself, and what it could match besides is a leftover as well.
    for (std::string& one : remove_unlocked(folder, name)) removed.push_back(std::move(one));
  }
  return removed;
}

}  // namespace ingot
