#include "checkpoint/formats/safetensors_header.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/check.h"

namespace ingot::checkpoint {
namespace {

using nlohmann::json;

struct DTypeRow {
  std::string_view name;
  int64_t bytes;
  std::optional<tensor::DType> dtype;
};

constexpr std::array<DTypeRow, 15> kDTypeRows = {{
    {"F64", 8, tensor::DType::kF64},
    {"F32", 4, tensor::DType::kF32},
    {"BF16", 2, tensor::DType::kBF16},
    {"F16", 2, tensor::DType::kF16},
    {"I64", 8, tensor::DType::kI64},
    {"I32", 4, tensor::DType::kI32},
    {"U16", 2, tensor::DType::kU16},
    {"U8", 1, tensor::DType::kU8},
    {"U64", 8, std::nullopt},
    {"U32", 4, std::nullopt},
    {"I16", 2, std::nullopt},
    {"I8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt},
    {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},
}};

const DTypeRow* find_row(std::string_view name) {
  for (const DTypeRow& row : kDTypeRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Reads {"name": {"dtype": s, "shape": [n...], "data_offsets": [n, n]}, "__metadata__": {s: s}} event by
// event: a document tree would keep the last of two equal names and could be nested without limit.
class HeaderHandler {
 public:
  explicit HeaderHandler(Header& out) : out_(out) {}

  std::string error;

  bool null() { return fail("null is not part of a header"); }
  bool boolean(bool) { return fail("a boolean is not part of a header"); }
  bool number_float(double, const std::string&) { return fail("sizes must be whole numbers"); }
  bool number_integer(int64_t value) {
    if (value < 0) return fail("sizes must not be negative");
    return number_unsigned(static_cast<uint64_t>(value));
  }
  bool number_unsigned(uint64_t value) {
    if (numbers_ == nullptr) return fail("a number stands outside of shape and data_offsets");
    if (numbers_->size() == kMostNumbers)
      return fail(fmt::format("a list has more than {} numbers", kMostNumbers));
    numbers_->push_back(value);
    return true;
  }
  bool binary(json::binary_t&) { return fail("binary data is not part of a header"); }

  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      out_.metadata.back().second = std::move(value);
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return fail("a string stands where none belongs");
    out_.tensors.back().dtype_name = std::move(value);
    return true;
  }

  bool key(std::string& value) {
    if (place_ == Place::kTop) {
      if (!names_.insert(value).second) return fail(fmt::format("the name {} occurs twice", value));
      key_ = std::move(value);
      return true;
    }
    if (place_ == Place::kMetadata) {
      out_.metadata.emplace_back(std::move(value), "");
      return true;
    }
    const int field = value == "dtype" ? 1 : value == "shape" ? 2 : value == "data_offsets" ? 4 : 0;
    if (field == 0) return fail(fmt::format("tensor {} has an unknown field {}", tensor_name(), value));
    if ((seen_ & field) != 0) return fail(fmt::format("tensor {} has {} twice", tensor_name(), value));
    seen_ |= field;
    key_ = std::move(value);
    return true;
  }

  bool start_object(size_t) {
    if (place_ == Place::kBefore) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) return fail("objects are nested too deep");
    if (key_ == "__metadata__") {
      place_ = Place::kMetadata;
      return true;
    }
    place_ = Place::kTensor;
    seen_ = 0;
    out_.tensors.push_back({key_, {}, {}, {}});
    return true;
  }

  bool end_object() {
    if (place_ == Place::kTensor && seen_ != 7) {
      return fail(fmt::format("tensor {} lacks one of dtype, shape, data_offsets", tensor_name()));
    }
    if (place_ == Place::kTensor && out_.tensors.back().data_offsets.size() != 2) {
      return fail(fmt::format("tensor {} needs two data_offsets", tensor_name()));
    }
    place_ = place_ == Place::kTop ? Place::kBefore : Place::kTop;
    return true;
  }

  bool start_array(size_t) {
    if (place_ != Place::kTensor || numbers_ != nullptr || key_ == "dtype" || key_.empty()) {
      return fail("a list stands where none belongs");
    }
    HeaderTensor& tensor = out_.tensors.back();
    numbers_ = key_ == "shape" ? &tensor.shape : &tensor.data_offsets;
    return true;
  }

  bool end_array() {
    numbers_ = nullptr;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) {
    return fail(fmt::format("it is not JSON at byte {}", position));
  }

 private:
  enum class Place { kBefore, kTop, kMetadata, kTensor };
  static constexpr size_t kMostNumbers = 32;

  bool fail(std::string why) {
    error = std::move(why);
    return false;
  }
  const std::string& tensor_name() const { return out_.tensors.back().name; }

  Header& out_;
  Place place_ = Place::kBefore;
  std::string key_;
  int seen_ = 0;
  std::vector<uint64_t>* numbers_ = nullptr;
  std::unordered_set<std::string> names_;
};

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

int64_t safetensors_element_bytes(std::string_view dtype_name) {
  const DTypeRow* row = find_row(dtype_name);
  return row == nullptr ? 0 : row->bytes;
}

std::optional<tensor::DType> safetensors_dtype(std::string_view dtype_name) {
  const DTypeRow* row = find_row(dtype_name);
  return row == nullptr ? std::nullopt : row->dtype;
}

std::string_view safetensors_name(tensor::DType dtype) {
  for (const DTypeRow& row : kDTypeRows) {
    if (row.dtype == dtype) return row.name;
  }
  INGOT_CHECK(false, "data type {} has no name in safetensors", tensor::name_of(dtype));
  return {};
}

Result<Header> parse_header(std::string_view text, const std::string& place) {
  Header header;
  HeaderHandler handler(header);
  if (!json::sax_parse(text.begin(), text.end(), &handler)) {
    const std::string why = handler.error.empty() ? "it is not JSON" : handler.error;
    return corrupt(
        fmt::format("{}: the safetensors header is damaged: {}. Fetch or write the file again", place, why));
  }
  return header;
}

std::string header_text(std::span<const TensorDeclaration> tensors, const Metadata& metadata) {
  std::string text = "{";
  const auto separate = [&text] {
    if (text.size() > 1) text += ',';
  };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", first ? "" : ",", quoted(key), quoted(value));
      first = false;
    }
    text += '}';
  }
  int64_t offset = 0;
  for (const TensorDeclaration& tensor : tensors) {
    separate();
    std::string shape;
    for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
      shape += fmt::format("{}{}", axis == 0 ? "" : ",", tensor.shape[axis]);
    }
    text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", quoted(tensor.name),
                        safetensors_name(tensor.dtype), shape, offset, offset + tensor.bytes());
    offset += tensor.bytes();
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  static_assert(std::endian::native == std::endian::little, "the length field is little-endian");
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text;
}

}  // namespace ingot::checkpoint
