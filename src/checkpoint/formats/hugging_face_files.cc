#include "checkpoint/formats/hugging_face_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace ingot::checkpoint {
namespace {

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr int kDeepest = 4;

using FileNames = std::map<std::string, std::vector<std::string>>;  // tensors by file

Result<FileNames> read_index(const std::string& path) {
  INGOT_TRY(const std::string text, read_file(path));
  using Json = nlohmann::json;
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; };
  const Json index = Json::parse(text.begin(), text.end(), shallow, false);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    return corrupt(fmt::format("{} has no weight_map. Fetch the folder again", path));
  }
  FileNames out;
  for (const auto& [name, file] : map->items()) {
    const std::string file_name = file.is_string() ? file.get<std::string>() : "";
    if (file_name.empty() || file_name.front() == '.' || file_name.find('/') != std::string::npos) {
      return corrupt(
          fmt::format("{} places tensor {} in \"{}\", which is not a file beside it. Fetch the folder again",
                      path, name, file_name));
    }
    out[file_name].push_back(name);
  }
  return out;
}

Error nothing_to_read(const std::string& folder) {
  for (const char* other :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.ckpt.index", "flax_model.msgpack"}) {
    if (!path_exists(folder + "/" + other)) continue;
    return not_found(
        fmt::format("{} holds {} and no {}. Ingot reads safetensors only, since the other kinds can run "
                    "code; most models offer both: fetch {}",
                    folder, other, kSingle, kSingle));
  }
  return not_found(
      fmt::format("{} holds neither {} nor {}. Name a folder of a Hugging Face model, or a .safetensors file",
                  folder, kSingle, kIndex));
}

}  // namespace

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : {std::string_view("transformer."), std::string_view("model.")}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

Result<void> HuggingFaceFiles::add(const std::string& path, const std::vector<std::string>* only) {
  INGOT_TRY(SafetensorsFile opened, SafetensorsFile::open(path));
  files_.push_back(std::make_unique<SafetensorsFile>(std::move(opened)));
  const SafetensorsFile& file = *files_.back();
  const auto take = [&](const SafetensorsEntry& entry) -> Result<void> {
    const auto [at, added] = tensors_.emplace(without_prefix(entry.name), FoundTensor{&file, &entry});
    if (added) return {};
    return corrupt(fmt::format("{} and {} hold the same tensor {}. Remove one of them",
                               at->second.file->path(), path, entry.name));
  };
  if (only == nullptr) {
    for (const SafetensorsEntry& entry : file.view().entries()) INGOT_TRY_VOID(take(entry));
    return {};
  }
  for (const std::string& name : *only) {
    const SafetensorsEntry* entry = file.view().find(name);
    if (entry == nullptr) {
      return corrupt(
          fmt::format("{} lacks tensor {}, which the index places there. Fetch it again", path, name));
    }
    INGOT_TRY_VOID(take(*entry));
  }
  return {};
}

Result<HuggingFaceFiles> HuggingFaceFiles::open(const std::string& path) {
  HuggingFaceFiles out;
  if (!path_exists(path)) return not_found(fmt::format("There is no {}", path));
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    INGOT_TRY_VOID(out.add(path, nullptr));
    return out;
  }
  const std::string single = fmt::format("{}/{}", path, kSingle);
  const std::string index = fmt::format("{}/{}", path, kIndex);
  if (path_exists(single)) {
    INGOT_TRY_VOID(out.add(single, nullptr));
    return out;
  }
  if (!path_exists(index)) return nothing_to_read(path);
  INGOT_TRY(const FileNames names, read_index(index));
  for (const auto& [file, tensors] : names) {
    const std::string file_path = path + "/" + file;
    if (!path_exists(file_path)) {
      return not_found(fmt::format("{} is missing; {} places {} tensors there. Fetch it", file_path, index,
                                   tensors.size()));
    }
    INGOT_TRY_VOID(out.add(file_path, &tensors));
  }
  return out;
}

}  // namespace ingot::checkpoint
