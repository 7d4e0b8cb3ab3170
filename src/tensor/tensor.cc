#include "tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ingot::tensor {
namespace {

struct DTypeRow {
  std::string_view name;
  int64_t size;
  bool floating;
};

constexpr std::array<DTypeRow, kDTypeCount> kDTypes = {{
    {"f64", 8, true},
    {"f32", 4, true},
    {"bf16", 2, true},
    {"f16", 2, true},
    {"i64", 8, false},
    {"i32", 4, false},
    {"u16", 2, false},
    {"u8", 1, false},
}};

const DTypeRow& row(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kReadableTail = 64;

}  // namespace

std::string_view name_of(DType dtype) { return row(dtype).name; }
int64_t size_of(DType dtype) { return row(dtype).size; }
bool is_floating(DType dtype) { return row(dtype).floating; }

Result<DType> dtype_of(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return invalid(fmt::format("unknown data type {}", name));
}

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  INGOT_CHECK(rank_ <= kMaxRank, "rank {} is above {}", rank_, kMaxRank);
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int i = 0; i < rank_; ++i) product *= (*this)[i];
  return product;
}

Shape Shape::with(int axis, int64_t extent) const {
  Shape copy = *this;
  copy.set(axis, extent);
  return copy;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ &&
         std::equal(extents_.begin(), extents_.begin() + rank_, other.extents_.begin());
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", (*this)[i]);
  return text + "]";
}

Result<Buffer> Buffer::allocate(int64_t bytes) {
  INGOT_CHECK(bytes >= 0, "negative size {}", bytes);
  Buffer buffer;
  buffer.bytes_ = bytes;
  if (bytes == 0) return buffer;
  buffer.mapped_ = align_up(bytes + kReadableTail, bytes >= kHugePage ? kHugePage : 4096);
  void* address = ::mmap(nullptr, static_cast<size_t>(buffer.mapped_), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    buffer.mapped_ = 0;
    return io_error(fmt::format("cannot allocate {} bytes: {}", bytes, std::strerror(errno)));
  }
  // Advice only: a kernel without huge pages refuses, and small pages work as well.
  if (bytes >= kHugePage) (void)::madvise(address, static_cast<size_t>(buffer.mapped_), MADV_HUGEPAGE);
  buffer.data_ = static_cast<std::byte*>(address);
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) (void)::munmap(data_, static_cast<size_t>(mapped_));
}

}  // namespace ingot::tensor
