#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

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

constexpr std::string_view kRemedy =
    "The file was changed or the disk is failing. Resume from another checkpoint, or save again";
constexpr size_t kMostNamed = 5;

// At most kMostNamed of them, then how many more.
std::string listed(const std::vector<std::string>& items, std::string_view separator) {
  const size_t shown = std::min(items.size(), kMostNamed);
  std::string out = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), separator));
  if (items.size() > shown) out += fmt::format("{}and {} more", separator, items.size() - shown);
  return out;
}

Result<void> check_size(const std::string& folder, const ManifestFile& entry) {
  const std::string path = folder + "/" + entry.name;
  if (!path_exists(path)) {
    return corrupt(
        fmt::format("{} is missing. Resume from another checkpoint, or copy this one again", path));
  }
  INGOT_TRY(const int64_t bytes, file_bytes(path));
  if (bytes == entry.bytes) return {};
  return corrupt(fmt::format("{} has {} bytes where {} were written: it is {}. {}", path,
                             format_integer(bytes), format_integer(entry.bytes),
                             bytes < entry.bytes ? "cut short" : "too long", kRemedy));
}

Error wrong_hash(const std::string& path, const std::vector<std::string>& parts) {
  return corrupt(fmt::format("{}: the checksum of {} is wrong. {}", path, listed(parts, ", "), kRemedy));
}

std::string byte_range(std::string_view what, int64_t offset, int64_t bytes) {
  return fmt::format("{} (bytes {} to {})", what, format_integer(offset), format_integer(offset + bytes));
}

// The header of `file` and the manifest tell the same.
Result<void> check_agreement(const SafetensorsFile& file, const ManifestFile& entry) {
  const SafetensorsView& view = file.view();
  const auto header = view.file().first(static_cast<size_t>(view.header_bytes()));
  if (view.header_bytes() != entry.header_bytes || hash64(header) != entry.header_hash) {
    return wrong_hash(file.path(), {byte_range("the header", 0, entry.header_bytes)});
  }
  if (view.entries().size() != entry.tensors.size()) {
    return corrupt(fmt::format("{} holds {} tensors, its manifest names {}. {}", file.path(),
                               view.entries().size(), entry.tensors.size(), kRemedy));
  }
  for (const ManifestTensor& tensor : entry.tensors) {
    const SafetensorsEntry* found = view.find(tensor.written.name);
    if (found == nullptr || found->offset != tensor.written.offset || found->bytes != tensor.written.bytes) {
      return corrupt(fmt::format("{}: tensor {} is not where the manifest says. {}", file.path(),
                                 tensor.written.name, kRemedy));
    }
  }
  return {};
}

// "vocab 4,096" for vocab_size = "4096".
std::string spoken(const std::string& key, const std::string& value, bool with_key) {
  std::string text = value;
  const bool digits =
      !value.empty() && value.size() < 18 && value.find_first_not_of("0123456789") == std::string::npos;
  if (digits) text = format_integer(std::stoll(value));
  if (text.empty()) text = "nothing";
  if (!with_key) return text;
  const std::string_view name(key);
  return fmt::format("{} {}", name.ends_with("_size") ? name.substr(0, name.size() - 5) : name, text);
}

}  // namespace

struct Checkpoint::State {
  struct Group {
    std::vector<SavedTensor> tensors;  // in the order of the first file that names them
    std::map<std::string, size_t, std::less<>> by_name;

    const SavedTensor* find(std::string_view name) const {
      const auto found = by_name.find(name);
      return found == by_name.end() ? nullptr : &tensors[found->second];
    }
  };
  std::string path;
  StateRecord record;
  std::vector<std::unique_ptr<SafetensorsFile>> files;  // at fixed addresses
  std::map<std::string, Group, std::less<>> groups;
  int64_t bytes = 0;

  Result<void> add_file(const std::string& file_path, const ManifestFile& entry);
  // `wrong`: what differs between the group and what is to be read.
  Result<void> must_fit(std::string_view group, const std::vector<std::string>& wrong) const {
    if (wrong.empty()) return {};
    return invalid(
        fmt::format("The {} of the checkpoint at {} does not fit this configuration: {}. Resume with the "
                    "configuration it was saved with",
                    group, path, listed(wrong, "; ")));
  }
  Result<const Group*> find(std::string_view name) const {
    const auto found = groups.find(name);
    if (found == groups.end())
      return not_found(fmt::format("The checkpoint at {} has no {}{}", path, name, kTensorSuffix));
    return &found->second;
  }
};

Result<void> Checkpoint::State::add_file(const std::string& file_path, const ManifestFile& entry) {
  auto opened = SafetensorsFile::open(file_path);
  // Ours never hold what the format allows and Ingot does not take: it is damage too.
  if (!opened && opened.error().code == ErrorCode::kInvalid) return corrupt(opened.error().message);
  INGOT_TRY(SafetensorsFile file, std::move(opened));
  INGOT_TRY_VOID(check_agreement(file, entry));
  files.push_back(std::make_unique<SafetensorsFile>(std::move(file)));
  Group& group = groups[entry.group];
  for (const ManifestTensor& written : entry.tensors) {
    const SafetensorsEntry* found = files.back()->view().find(written.written.name);
    const std::string& name = written.part ? written.tensor : written.written.name;
    const auto [at, added] = group.by_name.try_emplace(name, group.tensors.size());
    if (added) {
      const tensor::Shape& whole = written.part ? written.part->whole : found->shape;
      group.tensors.push_back({name, found->dtype_name, found->dtype, whole, {}});
    }
    SavedTensor& tensor = group.tensors[at->second];
    const bool ranks_agree =
        !written.part || written.part->offset.size() == static_cast<size_t>(found->shape.rank());
    if (!ranks_agree || (written.part && !(written.part->whole == tensor.whole)))
      return corrupt(fmt::format("{}: the place of {} is no place in {}. {}", file_path, written.written.name,
                                 tensor.whole.to_string(), kRemedy));
    tensor.pieces.push_back(
        {files.back().get(), found, written.written.hash, box_of(found->shape, written.part)});
  }
  return {};
}

Checkpoint::Checkpoint() : state_(std::make_unique<State>()) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::string& Checkpoint::path() const { return state_->path; }
const StateRecord& Checkpoint::state() const { return state_->record; }
int64_t Checkpoint::bytes() const { return state_->bytes; }

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  if (!path_exists(path)) return not_found(fmt::format("There is no checkpoint at {}", path));
  const std::string manifest_path = fmt::format("{}/{}", path, kManifestName);
  if (!path_exists(manifest_path)) {
    return corrupt(fmt::format("{} is missing: {} is not a whole checkpoint. Resume from another one",
                               manifest_path, path));
  }
  INGOT_TRY(const std::string text, read_file(manifest_path));
  INGOT_TRY(Manifest manifest, parse_manifest(text, manifest_path));
  Checkpoint out;
  State& state = *out.state_;
  state.path = path;
  state.bytes = static_cast<int64_t>(text.size());
  bool has_state = false;
  for (ManifestFile& entry : manifest.files) {
    INGOT_TRY_VOID(check_size(path, entry));
    state.bytes += entry.bytes;
    const std::string file_path = path + "/" + entry.name;
    if (entry.name == kStateName) {
      INGOT_TRY(const std::string record, read_file(file_path));
      if (hash64(record) != entry.hash) return wrong_hash(file_path, {"the whole file"});
      INGOT_TRY(state.record, parse_state(record, file_path));
      has_state = true;
    } else if (entry.name.ends_with(kTensorSuffix)) {
      INGOT_TRY_VOID(state.add_file(file_path, entry));
    } else {
      return corrupt(
          fmt::format("{} names {}, which belongs to no checkpoint. {}", manifest_path, entry.name, kRemedy));
    }
  }
  if (!has_state || state.record.step != manifest.step) {
    return corrupt(fmt::format("{} and its manifest are of different steps. {}", path, kRemedy));
  }
  for (const auto& [name, group] : state.groups) {
    for (const SavedTensor& tensor : group.tensors) INGOT_TRY_VOID(check_pieces(tensor, path));
  }
  return out;
}

std::vector<std::string> Checkpoint::groups() const {
  std::vector<std::string> out;
  for (const auto& [name, group] : state_->groups) out.push_back(name);
  return out;
}

Result<std::vector<NamedTensor>> Checkpoint::tensors(std::string_view name) const {
  INGOT_TRY(const State::Group* group, state_->find(name));
  std::vector<NamedTensor> out;
  for (const SavedTensor& tensor : group->tensors) {
    if (!tensor.dtype)
      return invalid(fmt::format("{}: {} is of type {}", state_->path, tensor.name, tensor.dtype_name));
    out.push_back({tensor.name, {nullptr, *tensor.dtype, tensor.whole}});
  }
  return out;
}

Result<void> Checkpoint::verify(int share, int shares) const {
  // A piece belongs to the share in which its middle byte lies.
  int64_t passed = 0;
  for (const auto& [name, group] : state_->groups) {
    std::map<std::string, std::vector<std::string>> damaged;  // by file
    for (const SavedTensor& tensor : group.tensors) {
      for (const SavedPiece& piece : tensor.pieces) {
        const int64_t middle = passed + piece.entry->bytes / 2;
        passed += piece.entry->bytes;
        if (middle * shares / std::max<int64_t>(1, state_->bytes) != share) continue;
        if (hash_of(piece) == piece.hash) continue;
        damaged[piece.file->path()].push_back(
            byte_range("tensor " + piece.entry->name, piece.entry->offset, piece.entry->bytes));
      }
    }
    if (!damaged.empty()) return wrong_hash(damaged.begin()->first, damaged.begin()->second);
  }
  return {};
}

Result<void> Checkpoint::require_model(const Fields& model, const std::string& remedy) const {
  const std::map<std::string, std::string> saved(state_->record.model.begin(), state_->record.model.end());
  const std::map<std::string, std::string> wanted(model.begin(), model.end());
  std::vector<std::string> theirs;
  std::vector<std::string> ours;
  const auto compare = [&](const std::string& key) {
    const auto a = saved.find(key);
    const auto b = wanted.find(key);
    const std::string left = a == saved.end() ? "" : a->second;
    const std::string right = b == wanted.end() ? "" : b->second;
    if (left == right) return;
    theirs.push_back(spoken(key, left, true));
    ours.push_back(right);
    ours.back() = spoken(key, right, false);
  };
  for (const auto& [key, value] : state_->record.model) compare(key);
  for (const auto& [key, value] : model) {
    if (!saved.contains(key)) compare(key);
  }
  if (theirs.empty()) return {};
  return invalid(fmt::format("The checkpoint at {} is of a model with {}; this configuration has {}. {}",
                             state_->path, listed(theirs, ", "), listed(ours, ", "), remedy));
}

namespace {

bool can_convert(const std::optional<tensor::DType>& from, tensor::DType to) {
  const auto floating = [](tensor::DType type) {
    return type == tensor::DType::kF32 || type == tensor::DType::kF64;
  };
  return from && (*from == to || (floating(*from) && floating(to)));
}

// What is wrong with a destination, or nothing.
std::string difference(const SavedTensor* saved, const NamedTensor& wanted) {
  if (saved == nullptr) return fmt::format("{} is not in it", wanted.name);
  const tensor::Shape& whole = wanted.part ? wanted.part->whole : wanted.view.shape;
  if (can_convert(saved->dtype, wanted.view.dtype) && saved->whole == whole) return "";
  return fmt::format("{} is {} {} in it and {} {} here", wanted.name, saved->dtype_name,
                     saved->whole.to_string(), tensor::name_of(wanted.view.dtype), whole.to_string());
}

}  // namespace

Result<void> Checkpoint::read(std::string_view name, std::span<const NamedTensor> destinations) const {
  INGOT_TRY(const State::Group* group, state_->find(name));
  std::set<std::string_view> names;
  std::vector<std::string> wrong;
  for (const NamedTensor& tensor : destinations) {
    names.insert(tensor.name);
    std::string what = difference(group->find(tensor.name), tensor);
    if (!what.empty()) wrong.push_back(std::move(what));
  }
  for (const SavedTensor& tensor : group->tensors) {
    if (!names.contains(tensor.name)) wrong.push_back(fmt::format("{} is in it and not here", tensor.name));
  }
  INGOT_TRY_VOID(state_->must_fit(name, wrong));
  return read_some(name, destinations);
}

Result<void> Checkpoint::read_some(std::string_view name, std::span<const NamedTensor> destinations) const {
  INGOT_TRY(const State::Group* group, state_->find(name));
  std::vector<std::string> wrong;
  for (const NamedTensor& tensor : destinations) {
    std::string what = difference(group->find(tensor.name), tensor);
    if (!what.empty()) wrong.push_back(std::move(what));
  }
  INGOT_TRY_VOID(state_->must_fit(name, wrong));
  std::map<std::string, std::vector<std::string>> damaged;  // by file
  for (const NamedTensor& tensor : destinations) {
    for (const SavedPiece& piece : group->find(tensor.name)->pieces) {
      if (copy_shared(piece, tensor)) continue;
      damaged[piece.file->path()].push_back(
          byte_range("tensor " + piece.entry->name, piece.entry->offset, piece.entry->bytes));
    }
  }
  if (!damaged.empty()) return wrong_hash(damaged.begin()->first, damaged.begin()->second);
  return {};
}

namespace {

// Each member hashes a share; all get the same answer.
Result<void> verify_together(comm::Communicator& ranks, const std::string& path) {
  const auto opened = Checkpoint::open(path);
  const auto own = opened ? opened->verify(ranks.index(), ranks.size()) : Result<void>(opened.error());
  const Result<std::string> said =
      own ? Result<std::string>(std::string()) : Result<std::string>(own.error());
  const int64_t bytes = opened ? opened->bytes() : 0;
  INGOT_TRY(const std::vector<Result<std::string>> all,
            comm::exchange_results(ranks, said, wait_for_disks("hashes of a checkpoint", bytes)));
  for (const Result<std::string>& one : all) {
    if (!one) return one.error();
  }
  return {};
}

// Steps by which all members go, newest first, as text. Removes what killed saves left.
Result<std::string> list_saved(const std::string& folder, std::vector<std::string>& notes) {
  if (!path_exists(folder)) return std::string();
  INGOT_TRY(const std::vector<std::string> leftovers, remove_killed_saves(folder));
  for (const std::string& name : leftovers)
    notes.push_back(fmt::format("{}/{} was left by a save that was stopped; it was removed", folder, name));
  INGOT_TRY(std::vector<int64_t> steps, saved_steps(folder));
  std::reverse(steps.begin(), steps.end());
  return fmt::format("{}", fmt::join(steps, " "));
}

}  // namespace

Result<std::optional<Latest>> latest(const std::string& folder) {
  return alone([&](comm::Communicator& self) { return latest(self, folder); });
}

Result<std::optional<Latest>> latest(comm::Communicator& ranks, const std::string& folder) {
  Latest out;
  const Result<std::string> own =
      ranks.index() == 0 ? list_saved(folder, out.notes) : Result<std::string>(std::string());
  INGOT_TRY(const std::string listed,
            comm::broadcast_result(ranks, own, 0, wait_for_disks("the list of checkpoints", 0)));
  if (listed.empty()) return std::optional<Latest>();
  std::istringstream steps(listed);
  size_t count = 0;
  std::string damaged;
  for (int64_t step = 0; steps >> step; ++count) {
    out.path = folder + "/" + step_folder(step);
    out.step = step;
    const Result<void> verified = verify_together(ranks, out.path);
    if (verified) return std::optional<Latest>(std::move(out));
    const Error& error = verified.error();
    if (error.code != ErrorCode::kCorrupt && error.code != ErrorCode::kNotFound) return error;
    out.notes.push_back(fmt::format("The checkpoint of step {} is damaged and was passed over: {}",
                                    format_integer(step), error.message));
    if (damaged.empty()) damaged = error.message;
  }
  return corrupt(
      fmt::format("None of the {} checkpoints in {} is whole; the newest: {}. To start anew, remove them",
                  count, folder, damaged));
}

}  // namespace ingot::checkpoint
