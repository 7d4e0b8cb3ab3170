#pragma once
// For the tests of this folder: tensors between guard bytes, random fills, the error measure of design.md
// section 9, and the loop over instruction sets and thread counts that every kernel's test runs in.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/kernels/bf16.h"
#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu::testing {

using tensor::DType;
using tensor::Shape;
using tensor::TensorView;

// Owned memory, 64-byte aligned, that ends at most 63 bytes before a page that cannot be read. The bytes
// around it up to there are guards, which guards_hold() looks at.
class TestTensor {
 public:
  TestTensor(DType dtype, Shape shape) : bytes_(shape.elements() * tensor::size_of(dtype)) {
    const int64_t page = sysconf(_SC_PAGESIZE), aligned = tensor::align_up(bytes_);
    mapped_ = tensor::align_up(aligned + kGuard, page);
    void* mapping = mmap(nullptr, static_cast<size_t>(mapped_ + page), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    INGOT_CHECK(mapping != MAP_FAILED, "no memory for {} bytes", bytes_);
    memory_ = static_cast<unsigned char*>(mapping);
    INGOT_CHECK(mprotect(memory_ + mapped_, static_cast<size_t>(page), PROT_NONE) == 0, "no guard page");
    begin_ = mapped_ - aligned;
    std::memset(memory_, kGuardByte, static_cast<size_t>(mapped_));
    view_ = {memory_ + begin_, dtype, shape};
    fill_bytes(0);
  }
  TestTensor(TestTensor&& other) noexcept
      : bytes_(other.bytes_),
        mapped_(other.mapped_),
        begin_(other.begin_),
        memory_(other.memory_),
        view_(other.view_) {
    other.memory_ = nullptr;
  }
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;
  ~TestTensor() {
    if (memory_ != nullptr) munmap(memory_, static_cast<size_t>(mapped_ + sysconf(_SC_PAGESIZE)));
  }

  const TensorView& view() const { return view_; }
  int64_t size() const { return view_.elements(); }
  double at(int64_t i) const {
    switch (view_.dtype) {
      case DType::kF32:
        return static_cast<double>(view_.as<float>()[i]);
      case DType::kBF16:
        return static_cast<double>(to_f32(view_.as<Bf16>()[i]));
      case DType::kI32:
        return view_.as<int32_t>()[i];
      default:
        return view_.as<uint8_t>()[i];
    }
  }
  void set(int64_t i, double value) {
    switch (view_.dtype) {
      case DType::kF32:
        view_.as<float>()[i] = static_cast<float>(value);
        break;
      case DType::kBF16:
        view_.as<Bf16>()[i] = to_bf16(static_cast<float>(value));
        break;
      case DType::kI32:
        view_.as<int32_t>()[i] = static_cast<int32_t>(value);
        break;
      case DType::kI64:
        view_.as<int64_t>()[i] = static_cast<int64_t>(value);
        break;
      default:
        view_.as<uint8_t>()[i] = static_cast<uint8_t>(value);
    }
  }
  std::vector<double> values() const {
    std::vector<double> out(static_cast<size_t>(size()));
    for (int64_t i = 0; i < size(); ++i) out[static_cast<size_t>(i)] = at(i);
    return out;
  }
  void fill_bytes(unsigned char byte) { std::memset(view_.data, byte, static_cast<size_t>(bytes_)); }
  std::string bits() const { return {view_.as<char>(), static_cast<size_t>(bytes_)}; }
  bool guards_hold() const {
    for (int64_t i = std::max<int64_t>(0, begin_ - kGuard); i < mapped_; ++i) {
      const bool inside = i >= begin_ && i < begin_ + bytes_;
      if (!inside && memory_[i] != kGuardByte) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr unsigned char kGuardByte = 0xa5;
  int64_t bytes_, mapped_ = 0, begin_ = 0;
  unsigned char* memory_ = nullptr;
  TensorView view_;
};

// Uniform in [-1, 1), the same for the same seed.
inline TestTensor random_tensor(DType dtype, Shape shape, uint64_t seed, double scale = 1) {
  TestTensor t(dtype, shape);
  uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (int64_t i = 0; i < t.size(); ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    t.set(i, scale * (static_cast<double>(state >> 11) / 4503599627370496.0 - 1));
  }
  return t;
}

// A workspace that starts as NaN and whose guards are looked at.
inline TestTensor workspace_of(int64_t bytes) {
  TestTensor t(DType::kU8, {bytes});
  t.fill_bytes(0xff);
  return t;
}
inline Workspace as_workspace(const TestTensor& t) {
  return {t.view().as<std::byte>(), static_cast<size_t>(t.size())};
}

// ||a − b|| / ||b||
inline double relative_error(const TestTensor& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double expected = b[static_cast<size_t>(i)], d = a.at(i) - expected;
    if (std::isnan(d)) return d;
    difference += d * d;
    norm += expected * expected;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

inline double bound_of(DType dtype) { return dtype == DType::kBF16 ? 4e-3 : 1e-5; }

// Runs `body` with every instruction path of this machine at 1, 2 and 3 threads. It returns its outputs'
// bits, which must be equal within a path, and checks values by itself.
inline void for_each_cpu(const std::function<std::string(const Cpu&)>& body) {
  flush_denormals();
  for (const bool native : {true, false}) {
    if (native && !has_avx512_bf16()) continue;
    std::string first;
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads, flush_denormals);
      const std::string bits = body({pool, native});
      if (threads == 1) first = bits;
      EXPECT_TRUE(bits == first) << "bits differ at " << threads << " threads, native " << native;
    }
  }
}

}  // namespace ingot::backend::cpu::testing
