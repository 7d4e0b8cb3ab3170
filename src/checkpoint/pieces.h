#pragma once
// Tensors of a checkpoint as the boxes that ranks wrote, and copies of any box out of them. Private to
// checkpoint: checkpoint.h is the interface.

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/records.h"

namespace ingot::checkpoint {

// Elements [first[d], first[d] + count[d]) along each dimension.
struct Box {
  int rank = 0;
  std::array<int64_t, tensor::kMaxRank> first{}, count{};

  int64_t elements() const;
  bool operator==(const Box&) const = default;
};
Box box_of(const tensor::Shape& shape, const std::optional<Part>& part);  // part: empty for a whole tensor
Box shared_box(const Box& a, const Box& b);  // no elements where they do not meet

// "h.0.attn.q.weight[0:16,32:64]": what a box of a tensor is called in a file.
std::string piece_name(const NamedTensor& tensor);

struct SavedPiece {
  const SafetensorsFile* file = nullptr;
  const SafetensorsEntry* entry = nullptr;
  uint64_t hash = 0;
  Box box;
};

struct SavedTensor {
  std::string name;
  std::string dtype_name;
  std::optional<tensor::DType> dtype;
  tensor::Shape whole;
  std::vector<SavedPiece> pieces;
};

// Every element of the tensor is in exactly one piece. Errors (kCorrupt) name `place`.
Result<void> check_pieces(const SavedTensor& tensor, const std::string& place);

// Copies what `piece` and the destination's box share into the destination, converting f32 and f64, and gives
// back the memory of the pages it read. Returns false where a piece that was copied whole has another hash.
bool copy_shared(const SavedPiece& piece, const NamedTensor& to);

// Hash of a piece; gives back the memory of its pages.
uint64_t hash_of(const SavedPiece& piece);

}  // namespace ingot::checkpoint
