#pragma once
// Files of the local disk: whole reads, mapped reads, and writes that are whole or not there at all. Every
// system call that can fail in the field goes through FileSystem, the seam at which tests inject full disks,
// torn writes and kills. Errors name the path, the reason of the system and a remedy where one is known.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ingot {

Result<std::string> read_file(const std::string& path);
bool path_exists(const std::string& path);
Result<int64_t> file_bytes(const std::string& path);
Result<void> make_directories(const std::string& path);                    // also parents; ok when there
Result<std::vector<std::string>> list_directory(const std::string& path);  // names, sorted
Result<void> remove_all(const std::string& path);                          // ok when absent

// A read-only mapping; at least `bytes()` readable, pages come on touch. Move-only.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }
  // Gives back the memory of whole pages inside `read`; a later touch reads them again.
  static void release(std::span<const std::byte> read);

 private:
  std::span<const std::byte> bytes_;
};

// Named places at which a test may stop or fail a write ("checkpoint.before_rename"). A process started with
// INGOT_FAULT=<point>[:<n>[+]]=kill|enospc|eio (read once by cli, handed to set_fault) dies or fails there
// the n-th time (default 1), with "+" every time from then on; point "*" counts all of them together. Base's
// own points: file.open, file.write (dies or fails when half is written), file.fsync, file.rename,
// atomic_file.before_rename, atomic_file.after_rename, atomic_directory.before_rename,
// atomic_directory.after_rename. Callers add theirs.
enum class FaultKind : uint8_t { kNone, kKill, kNoSpace, kIoError };
void set_fault(const std::string& spec);     // "" clears; a malformed one is refused by a check
FaultKind fault_at(std::string_view point);  // kKill never returns: SIGKILL to ourselves
Result<void> check_fault(std::string_view point,
                         const std::string& path);  // fault_at, as the error of the system

// Writes `path` so that a reader sees the old content or the new, never half: a temporary file beside it,
// fsync, rename, fsync of the folder. Destroyed before commit(), it removes the temporary file.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) noexcept;
  ~AtomicFile();
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text);
  int64_t written() const;
  Result<void> commit();

 private:
  AtomicFile();
  struct State;
  std::unique_ptr<State> state_;
};

Result<void> write_file_atomically(const std::string& path, std::string_view text);

// A folder written aside ("<path>.partial-<pid>") and renamed whole by commit(); fsyncs what it holds. An
// existing `path` is refused at create unless `replace`. Destroyed before commit(), it removes what was
// written.
class AtomicDirectory {
 public:
  static Result<AtomicDirectory> create(const std::string& path, bool replace);
  AtomicDirectory(AtomicDirectory&&) noexcept;
  AtomicDirectory& operator=(AtomicDirectory&&) noexcept;
  ~AtomicDirectory();
  const std::string& staging_path() const;  // write files here
  Result<void> commit();

 private:
  AtomicDirectory();
  struct State;
  std::unique_ptr<State> state_;
};

// Removes what killed writers left in `folder`: "*.partial-<pid>" and "*.tmp-<pid>-<n>" that no process holds
// any more (a living writer keeps a lock on its own). Returns the names removed.
Result<std::vector<std::string>> remove_leftovers(const std::string& folder);

// Appends whole lines to a text file (metrics, events); a torn last line of an earlier process is cut off at
// open.
class LineWriter {
 public:
  static Result<LineWriter> open(const std::string& path);
  LineWriter(LineWriter&&) noexcept;
  LineWriter& operator=(LineWriter&&) noexcept;
  ~LineWriter();
  Result<void> append(std::string_view line);  // without the newline; one write call

 private:
  LineWriter();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot
