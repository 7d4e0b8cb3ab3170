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

// Where a piece of a tensor lies in the whole: for checkpoints that many ranks write. Version 1 writes whole
// tensors only and refuses to read pieces.
struct Part {
  std::vector<int64_t> offset;
  std::vector<int64_t> whole;  // shape of the whole tensor
};

struct ManifestTensor {
  WrittenTensor written;
  std::optional<Part> part;
};

struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
  uint64_t hash = 0;         // XXH3-64 of the whole file
  int64_t header_bytes = 0;  // of a safetensors file
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
