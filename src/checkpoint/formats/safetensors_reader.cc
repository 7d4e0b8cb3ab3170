#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/units.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/formats/safetensors_header.h"

namespace ingot::checkpoint {
namespace {

constexpr std::string_view kRemedy = "The file is damaged or cut short; fetch or write it again";
constexpr int64_t kLengthBytes = 8;

Result<int64_t> read_header_length(std::span<const std::byte> file, const std::string& place) {
  const int64_t size = static_cast<int64_t>(file.size());
  if (size < kLengthBytes) {
    return corrupt(fmt::format("{}: {} bytes are too few for a safetensors file. {}", place, size, kRemedy));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > static_cast<uint64_t>(kSafetensorsHeaderLimit)) {
    return corrupt(
        fmt::format("{}: the header would be {} bytes, above the limit of {}. Is it a safetensors file?",
                    place, length, format_integer(kSafetensorsHeaderLimit)));
  }
  if (static_cast<int64_t>(length) > size - kLengthBytes) {
    return corrupt(fmt::format("{}: the header of {} bytes ends behind the file of {} bytes. {}", place,
                               format_integer(static_cast<int64_t>(length)), format_integer(size), kRemedy));
  }
  return static_cast<int64_t>(length);
}

// Product of the extents, or nothing when it leaves int64.
std::optional<int64_t> checked_product(std::span<const uint64_t> extents, int64_t element_bytes) {
  int64_t product = element_bytes;
  bool empty = false;
  for (const uint64_t extent : extents) {
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, static_cast<int64_t>(extent), &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

Result<SafetensorsEntry> check_tensor(const HeaderTensor& raw, int64_t header_bytes, int64_t file_bytes,
                                      const std::string& place) {
  const int64_t element_bytes = safetensors_element_bytes(raw.dtype_name);
  if (element_bytes == 0) {
    return corrupt(fmt::format("{}: tensor {} has the unknown data type \"{}\". Convert it to F32 or BF16",
                               place, raw.name, raw.dtype_name));
  }
  if (raw.shape.size() > static_cast<size_t>(tensor::kMaxRank)) {
    return invalid(fmt::format("{}: tensor {} has {} dimensions; Ingot takes at most {}. Reshape it", place,
                               raw.name, raw.shape.size(), tensor::kMaxRank));
  }
  const uint64_t begin = raw.data_offsets[0];
  const uint64_t end = raw.data_offsets[1];
  const int64_t data_bytes = file_bytes - header_bytes;
  if (begin > end || end > static_cast<uint64_t>(data_bytes)) {
    return corrupt(fmt::format("{}: tensor {} lies at bytes {} to {} of {} data bytes. {}", place, raw.name,
                               begin, end, format_integer(data_bytes), kRemedy));
  }
  const auto bytes = checked_product(raw.shape, element_bytes);
  if (!bytes || static_cast<uint64_t>(*bytes) != end - begin) {
    return corrupt(fmt::format("{}: tensor {} has {} bytes, which its shape [{}] of {} does not fill. {}",
                               place, raw.name, end - begin, fmt::join(raw.shape, ", "), raw.dtype_name,
                               kRemedy));
  }
  SafetensorsEntry entry;
  entry.name = raw.name;
  entry.dtype_name = raw.dtype_name;
  entry.dtype = safetensors_dtype(raw.dtype_name);
  std::vector<int64_t> extents(raw.shape.begin(), raw.shape.end());
  entry.shape = tensor::Shape(std::span<const int64_t>(extents));
  entry.offset = header_bytes + static_cast<int64_t>(begin);
  entry.bytes = *bytes;
  return entry;
}

// Every byte of the data belongs to exactly one tensor; `entries` are in order of offset.
Result<void> check_coverage(std::span<const SafetensorsEntry> entries, int64_t header_bytes,
                            int64_t file_bytes, const std::string& place) {
  int64_t expected = header_bytes;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset != expected) {
      return corrupt(fmt::format(
          "{}: tensor {} begins at byte {} where {} ends the one before it: they {}. {}", place, entry.name,
          entry.offset, expected, entry.offset < expected ? "overlap" : "leave a hole", kRemedy));
    }
    expected += entry.bytes;
  }
  if (expected != file_bytes) {
    return corrupt(fmt::format("{}: the tensors end at byte {}, the file at {}. {}", place,
                               format_integer(expected), format_integer(file_bytes), kRemedy));
  }
  return {};
}

}  // namespace

Result<SafetensorsView> SafetensorsView::parse(std::span<const std::byte> file, const std::string& place) {
  INGOT_TRY(const int64_t length, read_header_length(file, place));
  const std::string_view json(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              static_cast<size_t>(length));
  INGOT_TRY(Header header, parse_header(json, place));
  SafetensorsView view;
  view.file_ = file;
  view.header_bytes_ = kLengthBytes + length;
  view.metadata_ = std::move(header.metadata);
  const int64_t file_bytes = static_cast<int64_t>(file.size());
  for (const HeaderTensor& raw : header.tensors) {
    INGOT_TRY(SafetensorsEntry entry, check_tensor(raw, view.header_bytes_, file_bytes, place));
    view.entries_.push_back(std::move(entry));
  }
  // Empty tensors share an offset with their neighbour and must come before it.
  std::stable_sort(view.entries_.begin(), view.entries_.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
                   });
  INGOT_TRY_VOID(check_coverage(view.entries_, view.header_bytes_, file_bytes, place));
  for (size_t i = 0; i < view.entries_.size(); ++i) view.by_name_.emplace(view.entries_[i].name, i);
  return view;
}

const SafetensorsEntry* SafetensorsView::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::span<const std::byte> SafetensorsView::bytes_of(const SafetensorsEntry& entry) const {
  return file_.subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.bytes));
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  INGOT_TRY(file.mapping_, MappedFile::open(path));
  INGOT_TRY(file.view_, SafetensorsView::parse(file.mapping_.bytes(), path));
  return file;
}

}  // namespace ingot::checkpoint
