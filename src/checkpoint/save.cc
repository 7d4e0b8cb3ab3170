#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/records.h"
#include "checkpoint/retain.h"

namespace ingot::checkpoint {
namespace {

Metadata file_metadata() { return {{"format", "pt"}, {"written_by", "ingot"}}; }

std::vector<TensorDeclaration> declarations_of(const TensorGroup& group) {
  std::vector<TensorDeclaration> out;
  for (const NamedTensor& tensor : group.tensors)
    out.push_back({tensor.name, tensor.view.dtype, tensor.view.shape});
  return out;
}

// Upper bound of manifest.json: a line of names, numbers and a hash for each tensor and file.
int64_t manifest_bound(std::span<const TensorGroup> groups) {
  int64_t bytes = 4096;
  for (const TensorGroup& group : groups) {
    bytes += 512;
    for (const NamedTensor& tensor : group.tensors) bytes += 256 + static_cast<int64_t>(tensor.name.size());
  }
  return bytes;
}

// Of the file system that holds `path` or will hold it; -1 where it does not tell.
int64_t free_bytes(std::string path) {
  while (!path.empty() && !path_exists(path)) path = std::filesystem::path(path).parent_path().string();
  struct statvfs status {};
  if (::statvfs(path.empty() ? "." : path.c_str(), &status) != 0) return -1;
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

std::string last_good(const std::string& folder, int64_t step) {
  const auto steps = saved_steps(folder);
  if (!steps) return "";
  for (auto it = steps->rbegin(); it != steps->rend(); ++it) {
    if (*it != step) return fmt::format(" The checkpoint of step {} is untouched.", format_integer(*it));
  }
  return "";
}

Error full_disk(const std::string& folder, int64_t step, int64_t needed, const std::string& reason) {
  const int64_t free = free_bytes(folder);
  return io_error(
      fmt::format("The checkpoint of step {} could not be saved in {}: {}. It needs {} bytes ({}), and {} "
                  "bytes ({}) are free "
                  "there.{} Free space, lower checkpoint.keep_last, or choose another run.dir",
                  format_integer(step), folder, reason, format_integer(needed), format_bytes(needed),
                  format_integer(free), format_bytes(free), last_good(folder, step)));
}

Result<ManifestFile> write_group(const std::string& staging, const TensorGroup& group) {
  const std::string name = group.name + std::string(kTensorSuffix);
  INGOT_TRY(SafetensorsWriter writer,
            SafetensorsWriter::create(staging + "/" + name, declarations_of(group), file_metadata()));
  for (const NamedTensor& tensor : group.tensors) {
    const auto bytes = static_cast<size_t>(tensor.view.bytes());
    INGOT_TRY_VOID(writer.write({tensor.view.as<const std::byte>(), bytes}));
  }
  INGOT_TRY(WrittenSafetensors written, writer.finish());
  ManifestFile out{name, written.bytes, written.hash, written.header_bytes, written.header_hash, {}};
  for (WrittenTensor& tensor : written.tensors) out.tensors.push_back({std::move(tensor), std::nullopt});
  return out;
}

Result<ManifestFile> write_state(const std::string& staging, const StateRecord& record) {
  const std::string text = to_json(record);
  INGOT_TRY_VOID(write_file_atomically(fmt::format("{}/{}", staging, kStateName), text));
  return ManifestFile{std::string(kStateName), static_cast<int64_t>(text.size()), hash64(text), 0, 0, {}};
}

// Returns the bytes written.
Result<int64_t> write_checkpoint(const std::string& path, std::span<const TensorGroup> groups,
                                 const StateRecord& record) {
  INGOT_TRY_VOID(check_fault("checkpoint.begin", path));
  INGOT_TRY(AtomicDirectory directory, AtomicDirectory::create(path, true));
  const std::string& staging = directory.staging_path();
  Manifest manifest{record.step, {}};
  for (const TensorGroup& group : groups) {
    INGOT_TRY(ManifestFile file, write_group(staging, group));
    manifest.files.push_back(std::move(file));
    INGOT_TRY_VOID(check_fault("checkpoint.after_" + group.name, path));
  }
  INGOT_TRY(ManifestFile state, write_state(staging, record));
  manifest.files.push_back(std::move(state));
  INGOT_TRY_VOID(check_fault("checkpoint.after_state", path));
  const std::string text = to_json(manifest);
  INGOT_TRY_VOID(write_file_atomically(fmt::format("{}/{}", staging, kManifestName), text));
  INGOT_TRY_VOID(check_fault("checkpoint.after_manifest", path));
  INGOT_TRY_VOID(check_fault("checkpoint.before_rename", path));
  INGOT_TRY_VOID(directory.commit());
  int64_t bytes = static_cast<int64_t>(text.size());
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

}  // namespace

int64_t checkpoint_bytes(std::span<const TensorGroup> groups, const StateRecord& record) {
  int64_t bytes = manifest_bound(groups) + static_cast<int64_t>(to_json(record).size());
  for (const TensorGroup& group : groups) bytes += safetensors_bytes(declarations_of(group), file_metadata());
  return bytes;
}

Result<SaveReport> save(const std::string& folder, std::span<const TensorGroup> groups,
                        const StateRecord& record, const SaveOptions& options) {
  INGOT_CHECK(record.step >= 0 && options.keep_last >= 0, "step {} and keep_last {}", record.step,
              options.keep_last);
  const int64_t begin_ns = monotonic_ns();
  const int64_t needed = checkpoint_bytes(groups, record);
  if (const int64_t free = free_bytes(folder); free >= 0 && free < needed) {
    return full_disk(folder, record.step, needed, "the disk is too full");
  }
  SaveReport report;
  report.path = folder + "/" + step_folder(record.step);
  auto written = write_checkpoint(report.path, groups, record);
  if (!written) {
    Error error = std::move(written).take_error();
    if (error.code != ErrorCode::kIo) return error;
    return full_disk(folder, record.step, needed, error.message);
  }
  report.bytes = *written;
  // Saved already: a failure from here on is a note.
  if (auto point = check_fault("checkpoint.after_rename", report.path); !point) {
    report.notes.push_back(point.error().message);
  }
  retain(folder, record.step, options, report);
  report.seconds = static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
  return report;
}

}  // namespace ingot::checkpoint
