#pragma once
// Storage without mathematics: data types, shapes, views and owned buffers. A view never owns; a Buffer is
// the only owner. Kernels live in backend, never here. To add a data type: one row in kDTypes (tensor.cc).

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/result.h"

namespace ingot::tensor {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU16, kU8 };
inline constexpr int kDTypeCount = 8;

std::string_view name_of(DType dtype);  // "f64", "f32", "bf16", "f16", "i64", "i32", "u16", "u8"
Result<DType> dtype_of(std::string_view name);
int64_t size_of(DType dtype);  // bytes of one element
bool is_floating(DType dtype);

inline constexpr int kMaxRank = 5;

// Row-major extents; the last is contiguous. A default Shape is a scalar: rank 0, one element.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  void set(int axis, int64_t extent) { extents_[static_cast<size_t>(axis)] = extent; }
  int64_t elements() const;  // product of extents
  int64_t last() const { return rank_ == 0 ? 1 : extents_[static_cast<size_t>(rank_ - 1)]; }
  int64_t rows() const { return last() == 0 ? 0 : elements() / last(); }  // product of all but the last
  Shape with(int axis, int64_t extent) const;                             // a copy with one extent changed
  bool operator==(const Shape& other) const;
  std::string to_string() const;  // "[4, 1024, 768]"

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

// Where bytes lie. 0 is the host; a backend numbers its own.
struct MemorySpace {
  uint8_t id = 0;
  bool operator==(const MemorySpace&) const = default;
};

// A typed, shaped, borrowed piece of memory, contiguous row-major. Valid as long as its owner.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * size_of(dtype); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// The only owner of tensor memory on the host: 64-byte aligned (2 MiB and huge pages advised when large),
// zeroed by the system, at least 64 readable bytes after the end. Move-only.
class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> allocate(int64_t bytes);  // kIo with the size when the system refuses
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_ = 0;
};

inline constexpr int64_t kAlignment = 64;
inline int64_t align_up(int64_t bytes, int64_t alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace ingot::tensor
