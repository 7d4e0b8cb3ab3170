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
#include "checkpoint/pieces.h"
#include "checkpoint/records.h"
#include "checkpoint/retain.h"
#include "checkpoint/together.h"
#include "comm/texts.h"

namespace ingot::checkpoint {
namespace {

Metadata file_metadata() { return {{"format", "pt"}, {"written_by", "ingot"}}; }

std::vector<TensorDeclaration> declarations_of(const TensorGroup& group) {
  std::vector<TensorDeclaration> out;
  for (const NamedTensor& tensor : group.tensors)
    out.push_back({piece_name(tensor), tensor.view.dtype, tensor.view.shape});
  return out;
}

// Upper bound of manifest.json: a line of names, numbers and a hash for each tensor and file.
int64_t manifest_bound(std::span<const TensorGroup> groups) {
  int64_t bytes = 4096;
  for (const TensorGroup& group : groups) {
    bytes += 512;
    for (const NamedTensor& tensor : group.tensors)
      bytes += 512 + 2 * static_cast<int64_t>(tensor.name.size());
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

Result<ManifestFile> write_group(const std::string& staging, const std::string& name,
                                 const TensorGroup& group) {
  INGOT_TRY(SafetensorsWriter writer,
            SafetensorsWriter::create(staging + "/" + name, declarations_of(group), file_metadata()));
  for (const NamedTensor& tensor : group.tensors) {
    const auto bytes = static_cast<size_t>(tensor.view.bytes());
    INGOT_TRY_VOID(writer.write({tensor.view.as<const std::byte>(), bytes}));
  }
  INGOT_TRY(WrittenSafetensors written, writer.finish());
  ManifestFile out{name, written.bytes, written.hash, group.name, written.header_bytes, written.header_hash,
                   {}};
  for (size_t i = 0; i < written.tensors.size(); ++i) {
    const NamedTensor& tensor = group.tensors[i];
    out.tensors.push_back({std::move(written.tensors[i]), tensor.part ? tensor.name : "", tensor.part});
  }
  return out;
}

Result<ManifestFile> write_state(const std::string& staging, const StateRecord& record) {
  const std::string text = to_json(record);
  INGOT_TRY_VOID(write_file_atomically(fmt::format("{}/{}", staging, kStateName), text));
  return ManifestFile{std::string(kStateName), static_cast<int64_t>(text.size()), hash64(text), "", 0, 0, {}};
}

// One save by all members of a group. Member 0 makes the folder, writes what is not a tensor and renames;
// every step ends alike for all.
class Saving {
 public:
  Saving(comm::Communicator& ranks, const std::string& folder, std::span<const TensorGroup> groups,
         const StateRecord& record, const SaveOptions& options)
      : ranks_(ranks),
        folder_(folder),
        path_(folder + "/" + step_folder(record.step)),
        groups_(groups),
        record_(record),
        options_(options) {}

  // Returns the bytes of the whole checkpoint on every member.
  Result<int64_t> run() {
    INGOT_TRY_VOID(count());
    INGOT_TRY(const std::string staging, agree(first() ? told(begin()) : nothing()));
    INGOT_TRY(const std::vector<Result<std::string>> written,
              comm::gather_results(ranks_, write_own(staging), 0, patience("tensors of a checkpoint")));
    INGOT_TRY(const std::string bytes, agree(first() ? told(finish(written)) : nothing()));
    return std::stoll(bytes);
  }

 private:
  bool first() const { return ranks_.index() == 0; }
  static Result<std::string> nothing() { return std::string(); }
  Result<std::string> told(Result<std::string> result);
  Result<std::string> agree(const Result<std::string>& own) {
    return comm::broadcast_result(ranks_, own, 0, patience("a checkpoint"));
  }
  comm::CallOptions patience(const char* what) const {
    comm::CallOptions options = wait_for_disks(what, needed_);
    if (options_.patience) options.timeout = *options_.patience;
    return options;
  }
  Result<void> count();
  Result<std::string> begin();
  Result<std::string> write_own(const std::string& staging);
  Result<std::string> finish(const std::vector<Result<std::string>>& written);
  std::string file_name(size_t group) const;

  comm::Communicator& ranks_;
  const std::string& folder_;
  const std::string path_;
  std::span<const TensorGroup> groups_;
  const StateRecord& record_;
  const SaveOptions& options_;
  int64_t needed_ = 0;                        // bytes, by all members
  std::vector<int64_t> writers_;              // of each group
  std::optional<AtomicDirectory> directory_;  // of member 0
};

// What a disk refused, with what there is room for once nothing half is left.
Result<std::string> Saving::told(Result<std::string> result) {
  if (result || result.error().code != ErrorCode::kIo) return result;
  directory_.reset();
  return full_disk(folder_, record_.step, needed_, result.error().message);
}

// What all will write, and how many write some of each group.
Result<void> Saving::count() {
  std::vector<int64_t> own = {checkpoint_bytes(groups_, record_)};
  for (const TensorGroup& group : groups_) own.push_back(group.tensors.empty() ? 0 : 1);
  const tensor::TensorView view{own.data(), tensor::DType::kI64,
                                tensor::Shape{static_cast<int64_t>(own.size())}};
  INGOT_TRY_VOID(ranks_.all_reduce(view, view, patience("sizes of a checkpoint")));
  needed_ = own[0];
  writers_.assign(own.begin() + 1, own.end());
  return {};
}

// Returns the folder in which all write.
Result<std::string> Saving::begin() {
  if (const int64_t free = free_bytes(folder_); free >= 0 && free < needed_)
    return io_error("the disk is too full");
  INGOT_TRY_VOID(check_fault("checkpoint.begin", path_));
  INGOT_TRY(directory_, AtomicDirectory::create(path_, true));
  return directory_->staging_path();
}

// A group that one member writes alone is one file that bears its name.
std::string Saving::file_name(size_t group) const {
  const std::string& name = groups_[group].name;
  const bool alone = ranks_.size() == 1 || (writers_[group] == 1 && !groups_[group].tensors.empty());
  return (alone ? name : fmt::format("{}-{:05}", name, ranks_.index())) + std::string(kTensorSuffix);
}

// Returns the files of this member as a manifest.
Result<std::string> Saving::write_own(const std::string& staging) {
  if (!path_exists(staging))
    return io_error(fmt::format("{} is not there: the ranks do not see the same folder", staging));
  Manifest manifest{record_.step, {}};
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (ranks_.size() > 1 && groups_[i].tensors.empty()) continue;
    INGOT_TRY(ManifestFile file, write_group(staging, file_name(i), groups_[i]));
    manifest.files.push_back(std::move(file));
    INGOT_TRY_VOID(check_fault("checkpoint.after_" + groups_[i].name, path_));
  }
  return to_json(manifest);
}

// Returns the bytes of the checkpoint, as text.
Result<std::string> Saving::finish(const std::vector<Result<std::string>>& written) {
  Manifest manifest{record_.step, {}};
  for (size_t i = 0; i < written.size(); ++i) {
    const std::string rank = fmt::format("rank {}", i);
    if (!written[i]) {
      Error error = written[i].error();
      return written.size() == 1 ? error : std::move(error).context(rank);
    }
    INGOT_TRY(Manifest own, parse_manifest(*written[i], rank));
    for (ManifestFile& file : own.files) manifest.files.push_back(std::move(file));
  }
  const std::string& staging = directory_->staging_path();
  INGOT_TRY(ManifestFile state, write_state(staging, record_));
  manifest.files.push_back(std::move(state));
  INGOT_TRY_VOID(check_fault("checkpoint.after_state", path_));
  const std::string text = to_json(manifest);
  INGOT_TRY_VOID(write_file_atomically(fmt::format("{}/{}", staging, kManifestName), text));
  INGOT_TRY_VOID(check_fault("checkpoint.after_manifest", path_));
  INGOT_TRY_VOID(check_fault("checkpoint.before_rename", path_));
  INGOT_TRY_VOID(directory_->commit());
  auto bytes = static_cast<int64_t>(text.size());
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  return std::to_string(bytes);
}

}  // namespace

int64_t checkpoint_bytes(std::span<const TensorGroup> groups, const StateRecord& record) {
  int64_t bytes = manifest_bound(groups) + static_cast<int64_t>(to_json(record).size());
  for (const TensorGroup& group : groups) bytes += safetensors_bytes(declarations_of(group), file_metadata());
  return bytes;
}

Result<SaveReport> save(const std::string& folder, std::span<const TensorGroup> groups,
                        const StateRecord& record, const SaveOptions& options) {
  return alone([&](comm::Communicator& self) { return save(self, folder, groups, record, options); });
}

Result<SaveReport> save(comm::Communicator& ranks, const std::string& folder,
                        std::span<const TensorGroup> groups, const StateRecord& record,
                        const SaveOptions& options) {
  INGOT_CHECK(record.step >= 0 && options.keep_last >= 0, "step {} and keep_last {}", record.step,
              options.keep_last);
  const int64_t begin_ns = monotonic_ns();
  SaveReport report;
  report.path = folder + "/" + step_folder(record.step);
  INGOT_TRY(report.bytes, Saving(ranks, folder, groups, record, options).run());
  if (ranks.index() == 0) {
    // Saved already: a failure from here on is a note.
    if (auto point = check_fault("checkpoint.after_rename", report.path); !point) {
      report.notes.push_back(point.error().message);
    }
    retain(folder, record.step, options, report);
  }
  report.seconds = static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
  return report;
}

}  // namespace ingot::checkpoint
