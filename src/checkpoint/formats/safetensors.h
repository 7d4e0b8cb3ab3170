#pragma once
// The safetensors format: one file of named tensors, a JSON header in front (docs/formats/safetensors.md).
// The reader maps a file and gives views; the writer streams tensors in a given order and hashes them on the
// way. Not here: what tensors mean (checkpoint.h, hugging_face.h). A new data type is one row in kDTypeRows
// (safetensors_header.cc).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace ingot::checkpoint {

inline constexpr int64_t kSafetensorsHeaderLimit = 100'000'000;  // bytes of JSON, the limit of the format

using Metadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;              // as in the file: "F32", "BF16", ...
  std::optional<tensor::DType> dtype;  // empty for a type of the format that Ingot does not compute with
  tensor::Shape shape;
  int64_t offset = 0;  // of its first byte in the file
  int64_t bytes = 0;
};

// A file in memory, checked: every tensor lies inside, none overlap, no byte between them is unaccounted for,
// sizes agree with shapes, names are unique. The order of names in the header is free, as in the format.
class SafetensorsView {
 public:
  // Borrows `file`; `place` names it in messages. Errors are kCorrupt, or kInvalid for what is legal but more
  // than Ingot takes (a rank above tensor::kMaxRank).
  static Result<SafetensorsView> parse(std::span<const std::byte> file, const std::string& place);

  std::span<const SafetensorsEntry> entries() const { return entries_; }  // by offset
  const SafetensorsEntry* find(std::string_view name) const;              // null when absent
  const Metadata& metadata() const { return metadata_; }
  int64_t header_bytes() const { return header_bytes_; }  // length field and JSON: data begins there
  // Not necessarily aligned to its elements: files of others may begin anywhere.
  std::span<const std::byte> bytes_of(const SafetensorsEntry& entry) const;
  std::span<const std::byte> file() const { return file_; }

 private:
  std::span<const std::byte> file_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
  Metadata metadata_;
  int64_t header_bytes_ = 0;
};

// A view that owns its mapping. Const members may be called from any thread.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  const SafetensorsView& view() const { return view_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  MappedFile mapping_;
  SafetensorsView view_;
};

struct TensorDeclaration {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;

  int64_t bytes() const { return shape.elements() * tensor::size_of(dtype); }
};

// Bytes of the file that the writer will make.
int64_t safetensors_bytes(std::span<const TensorDeclaration> tensors, const Metadata& metadata);

struct WrittenTensor {
  std::string name;
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
  uint64_t hash = 0;  // XXH3-64 of its bytes
};

struct WrittenSafetensors {
  int64_t bytes = 0;
  uint64_t hash = 0;  // of the whole file
  int64_t header_bytes = 0;
  uint64_t header_hash = 0;
  std::vector<WrittenTensor> tensors;  // by offset
};

// Writes a file from front to back, hashing as it goes: one pass over memory. The header is made first, so
// names and shapes are declared at create. Nothing is at `path` before finish(). Data begins at a multiple of
// 8 bytes.
class SafetensorsWriter {
 public:
  // Duplicate names, and an order that would misalign elements (a tensor of wide elements behind an odd
  // number of narrow ones), are checks: declare wide types first.
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<TensorDeclaration> tensors,
                                          const Metadata& metadata);
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // The next bytes of the data, in the declared order; pieces may end anywhere, also across tensors.
  Result<void> write(std::span<const std::byte> bytes);
  // A check unless every declared byte was written.
  Result<WrittenSafetensors> finish();

 private:
  SafetensorsWriter();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::checkpoint
