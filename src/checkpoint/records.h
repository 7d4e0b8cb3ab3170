#pragma once
// state.json and manifest.json as plain data. Private to checkpoint: checkpoint.h is the interface.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/formats/safetensors.h"

namespace ingot::checkpoint {

struct ManifestTensor {
  WrittenTensor written;     // its name is that in the file
  std::string tensor;        // of which it is a part; empty: it is whole
  std::optional<Part> part;  // and then where
};

struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
  uint64_t hash = 0;  // XXH3-64 of the whole file
  std::string group;  // of a safetensors file
  int64_t header_bytes = 0;
  uint64_t header_hash = 0;
  std::vector<ManifestTensor> tensors;
};

struct Manifest {
  int64_t step = 0;
  std::vector<ManifestFile> files;
};

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kStateName = "state.json";
inline constexpr std::string_view kTensorSuffix = ".safetensors";

std::string to_json(const StateRecord& record);
std::string to_json(const Manifest& manifest);
// `place` names the file in messages.
Result<StateRecord> parse_state(std::string_view text, const std::string& place);
Result<Manifest> parse_manifest(std::string_view text, const std::string& place);

}  // namespace ingot::checkpoint
