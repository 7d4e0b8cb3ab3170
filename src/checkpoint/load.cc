#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/file.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/records.h"
#include "checkpoint/retain.h"

namespace ingot::checkpoint {
namespace {

constexpr std::string_view kRemedy =
    "The file was changed or the disk is failing. Resume from another checkpoint, or save again";
constexpr size_t kMostNamed = 5;
constexpr size_t kPieceBytes = size_t{512} << 10;

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
    if (tensor.part) {
      return invalid(
          fmt::format("{} holds parts of tensors, written by several ranks; this version reads whole "
                      "tensors only. Use the Ingot that wrote it, or a later one",
                      file.path()));
    }
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
    SafetensorsFile file;
    ManifestFile entry;
  };
  std::string path;
  StateRecord record;
  std::map<std::string, Group, std::less<>> groups;
  int64_t bytes = 0;

  Result<const Group*> find(std::string_view name) const {
    const auto found = groups.find(name);
    if (found == groups.end())
      return not_found(fmt::format("The checkpoint at {} has no {}{}", path, name, kTensorSuffix));
    return &found->second;
  }
};

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
      auto opened = SafetensorsFile::open(file_path);
      // Ours never hold what the format allows and Ingot does not take: it is damage too.
      if (!opened && opened.error().code == ErrorCode::kInvalid) return corrupt(opened.error().message);
      INGOT_TRY(SafetensorsFile file, std::move(opened));
      INGOT_TRY_VOID(check_agreement(file, entry));
      const std::string group = entry.name.substr(0, entry.name.size() - kTensorSuffix.size());
      state.groups.insert_or_assign(group, State::Group{std::move(file), std::move(entry)});
    } else {
      return corrupt(
          fmt::format("{} names {}, which belongs to no checkpoint. {}", manifest_path, entry.name, kRemedy));
    }
  }
  if (!has_state || state.record.step != manifest.step) {
    return corrupt(fmt::format("{} and its manifest are of different steps. {}", path, kRemedy));
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
  for (const SafetensorsEntry& entry : group->file.view().entries()) {
    if (!entry.dtype)
      return invalid(fmt::format("{}: {} is of type {}", state_->path, entry.name, entry.dtype_name));
    out.push_back({entry.name, {nullptr, *entry.dtype, entry.shape}});
  }
  return out;
}

Result<void> Checkpoint::verify() const {
  for (const auto& [name, group] : state_->groups) {
    const SafetensorsView& view = group.file.view();
    std::vector<std::string> damaged;
    for (const ManifestTensor& tensor : group.entry.tensors) {
      const SafetensorsEntry* entry = view.find(tensor.written.name);
      if (hash64(view.bytes_of(*entry)) == tensor.written.hash) continue;
      damaged.push_back(byte_range("tensor " + entry->name, entry->offset, entry->bytes));
    }
    if (!damaged.empty()) return wrong_hash(group.file.path(), damaged);
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

// All differences of names, types and shapes.
std::vector<std::string> differences(const SafetensorsView& view, std::span<const NamedTensor> wanted) {
  std::vector<std::string> out;
  std::map<std::string_view, int> seen;
  for (const NamedTensor& tensor : wanted) {
    seen[tensor.name] = 1;
    const SafetensorsEntry* entry = view.find(tensor.name);
    if (entry == nullptr) {
      out.push_back(fmt::format("{} is not in it", tensor.name));
    } else if (entry->dtype != tensor.view.dtype || !(entry->shape == tensor.view.shape)) {
      out.push_back(fmt::format("{} is {} {} in it and {} {} here", tensor.name, entry->dtype_name,
                                entry->shape.to_string(), tensor::name_of(tensor.view.dtype),
                                tensor.view.shape.to_string()));
    }
  }
  for (const SafetensorsEntry& entry : view.entries()) {
    if (!seen.contains(entry.name)) out.push_back(fmt::format("{} is in it and not here", entry.name));
  }
  return out;
}

bool copy_and_hash(std::span<const std::byte> from, void* to, uint64_t expected) {
  Hasher hasher;
  auto* out = static_cast<std::byte*>(to);
  while (!from.empty()) {
    const auto piece = from.first(std::min(from.size(), kPieceBytes));
    std::memcpy(out, piece.data(), piece.size());
    // Of the copy, not of the mapping: what counts is what the run goes on with.
    hasher.update({out, piece.size()});
    out += piece.size();
    from = from.subspan(piece.size());
  }
  return hasher.digest() == expected;
}

}  // namespace

Result<void> Checkpoint::read(std::string_view name, std::span<const NamedTensor> destinations) const {
  INGOT_TRY(const State::Group* group, state_->find(name));
  const SafetensorsView& view = group->file.view();
  if (const auto wrong = differences(view, destinations); !wrong.empty()) {
    return invalid(
        fmt::format("The {} of the checkpoint at {} does not fit this configuration: {}. Resume with the "
                    "configuration it was saved with",
                    name, state_->path, listed(wrong, "; ")));
  }
  std::map<std::string_view, uint64_t> hashes;
  for (const ManifestTensor& tensor : group->entry.tensors) hashes[tensor.written.name] = tensor.written.hash;
  std::vector<std::string> damaged;
  for (const NamedTensor& tensor : destinations) {
    const SafetensorsEntry* entry = view.find(tensor.name);
    if (copy_and_hash(view.bytes_of(*entry), tensor.view.data, hashes[tensor.name])) continue;
    damaged.push_back(byte_range("tensor " + entry->name, entry->offset, entry->bytes));
  }
  if (!damaged.empty()) return wrong_hash(group->file.path(), damaged);
  return {};
}

Result<std::optional<Latest>> latest(const std::string& folder) {
  if (!path_exists(folder)) return std::optional<Latest>();
  Latest out;
  INGOT_TRY(const std::vector<std::string> leftovers, remove_killed_saves(folder));
  for (const std::string& name : leftovers) {
    out.notes.push_back(
        fmt::format("{}/{} was left by a save that was stopped; it was removed", folder, name));
  }
  INGOT_TRY(const std::vector<int64_t> steps, saved_steps(folder));
  std::string damaged;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    out.path = folder + "/" + step_folder(*step);
    out.step = *step;
    auto opened = Checkpoint::open(out.path);
    auto verified = opened ? opened->verify() : Result<void>(opened.error());
    if (verified) return std::optional<Latest>(std::move(out));
    const Error& error = verified.error();
    if (error.code != ErrorCode::kCorrupt && error.code != ErrorCode::kNotFound) return error;
    out.notes.push_back(fmt::format("The checkpoint of step {} is damaged and was passed over: {}",
                                    format_integer(*step), error.message));
    if (damaged.empty()) damaged = error.message;
  }
  if (steps.empty()) return std::optional<Latest>();
  return corrupt(
      fmt::format("None of the {} checkpoints in {} is whole; the newest: {}. To start anew, remove them",
                  steps.size(), folder, damaged));
}

}  // namespace ingot::checkpoint
