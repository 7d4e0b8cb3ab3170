#pragma once
// The weight files of a Hugging Face folder as one set of names. Private to formats/: hugging_face.h is the
// interface.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/formats/safetensors.h"

namespace ingot::checkpoint {

struct FoundTensor {
  const SafetensorsFile* file = nullptr;  // owned by the set
  const SafetensorsEntry* entry = nullptr;

  std::span<const std::byte> bytes() const { return file->view().bytes_of(*entry); }
};

class HuggingFaceFiles {
 public:
  // `path`: a folder with model.safetensors or model.safetensors.index.json, or a .safetensors file.
  static Result<HuggingFaceFiles> open(const std::string& path);

  // Keyed by name without the prefix "transformer." or "model.".
  const std::map<std::string, FoundTensor, std::less<>>& tensors() const { return tensors_; }

 private:
  Result<void> add(const std::string& path, const std::vector<std::string>* only);
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, FoundTensor, std::less<>> tensors_;
};

// "h.0.ln_1.weight" of "transformer.h.0.ln_1.weight".
std::string_view without_prefix(std::string_view name);

}  // namespace ingot::checkpoint
