#pragma once
// The JSON header of a safetensors file, to and from plain data. Private to formats/: safetensors.h is the
// interface.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/formats/safetensors.h"

namespace ingot::checkpoint {

struct HeaderTensor {
  std::string name;
  std::string dtype_name;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> data_offsets;  // begin and end, counted from the end of the header
};

struct Header {
  std::vector<HeaderTensor> tensors;  // in the order of the text
  Metadata metadata;
};

// Grammar only: offsets and shapes are not yet compared with anything. Errors (kCorrupt) name `place` and the
// byte.
Result<Header> parse_header(std::string_view json, const std::string& place);

// The length field and the JSON, padded with spaces so that data begins at a multiple of 8.
std::string header_text(std::span<const TensorDeclaration> tensors, const Metadata& metadata);

// Bytes of one element of a type of the format, 0 for an unknown name.
int64_t safetensors_element_bytes(std::string_view dtype_name);
std::optional<tensor::DType> safetensors_dtype(std::string_view dtype_name);
std::string_view safetensors_name(tensor::DType dtype);

}  // namespace ingot::checkpoint
