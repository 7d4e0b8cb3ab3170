#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/hash.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/formats/safetensors_header.h"

namespace ingot::checkpoint {
namespace {

// Both hashes and the copy into the page cache read a piece while it is in the second-level cache.
constexpr int64_t kPieceBytes = int64_t{512} << 10;

}  // namespace

struct SafetensorsWriter::State {
  AtomicFile file;
  std::vector<TensorDeclaration> tensors;
  WrittenSafetensors written;
  Hasher whole;
  Hasher current;         // of the tensor being written
  size_t index = 0;       // of that tensor
  int64_t remaining = 0;  // its bytes still to come

  void open_tensor() {
    while (index < tensors.size()) {
      remaining = tensors[index].bytes();
      current = Hasher();
      if (remaining > 0) return;
      close_tensor();
    }
  }
  void close_tensor() {
    const int64_t bytes = tensors[index].bytes();
    written.tensors.push_back({tensors[index].name, written.bytes - bytes, bytes, current.digest()});
    ++index;
  }
  Result<void> append(std::span<const std::byte> piece) {
    whole.update(piece);
    written.bytes += static_cast<int64_t>(piece.size());
    return file.write(piece);
  }
};

int64_t safetensors_bytes(std::span<const TensorDeclaration> tensors, const Metadata& metadata) {
  int64_t bytes = static_cast<int64_t>(header_text(tensors, metadata).size());
  for (const TensorDeclaration& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

SafetensorsWriter::SafetensorsWriter() = default;
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::vector<TensorDeclaration> tensors,
                                                    const Metadata& metadata) {
  std::unordered_set<std::string_view> names;
  int64_t offset = 0;
  for (const TensorDeclaration& tensor : tensors) {
    INGOT_CHECK(names.insert(tensor.name).second && tensor.name != "__metadata__",
                "tensor name {} is taken in {}", tensor.name, path);
    INGOT_CHECK(offset % tensor::size_of(tensor.dtype) == 0,
                "tensor {} of {} would begin at byte {} of the data of {}; declare wide types first",
                tensor.name, tensor::name_of(tensor.dtype), offset, path);
    offset += tensor.bytes();
  }
  const std::string header = header_text(tensors, metadata);
  INGOT_CHECK(static_cast<int64_t>(header.size()) <= kSafetensorsHeaderLimit, "the header of {} has {} bytes",
              path, header.size());
  INGOT_TRY(AtomicFile file, AtomicFile::create(path));
  SafetensorsWriter writer;
  writer.state_ =
      std::make_unique<State>(State{std::move(file), std::move(tensors), {}, Hasher(), Hasher(), 0, 0});
  State& state = *writer.state_;
  const auto bytes = std::as_bytes(std::span(header));
  INGOT_TRY_VOID(state.append(bytes));
  state.written.header_bytes = static_cast<int64_t>(header.size());
  state.written.header_hash = hash64(bytes);
  state.open_tensor();
  return writer;
}

Result<void> SafetensorsWriter::write(std::span<const std::byte> bytes) {
  State& state = *state_;
  while (!bytes.empty()) {
    INGOT_CHECK(state.index < state.tensors.size(), "{} bytes more than the declared tensors hold",
                bytes.size());
    const int64_t wanted = std::min({static_cast<int64_t>(bytes.size()), state.remaining, kPieceBytes});
    const auto piece = bytes.first(static_cast<size_t>(wanted));
    state.current.update(piece);
    INGOT_TRY_VOID(state.append(piece));
    bytes = bytes.subspan(piece.size());
    state.remaining -= wanted;
    if (state.remaining == 0) {
      state.close_tensor();
      state.open_tensor();
    }
  }
  return {};
}

Result<WrittenSafetensors> SafetensorsWriter::finish() {
  State& state = *state_;
  INGOT_CHECK(state.index == state.tensors.size(), "tensor {} lacks {} bytes",
              state.tensors[state.index].name, state.remaining);
  INGOT_TRY_VOID(state.file.commit());
  state.written.hash = state.whole.digest();
  return std::move(state.written);
}

}  // namespace ingot::checkpoint
