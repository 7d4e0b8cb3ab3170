#include "comm/sum.h"

#include <algorithm>
#include <array>

#include "tensor/half.h"

namespace ingot::comm {
namespace {

using tensor::DType;

template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct BrainFloat {
  using Stored = uint16_t;
  using Sum = float;
  static float load(uint16_t bits) { return tensor::float_of_bf16(bits); }
  static uint16_t store(float value) { return tensor::bf16_of_float(value); }
};
struct HalfFloat {
  using Stored = uint16_t;
  using Sum = float;
  static float load(uint16_t bits) { return tensor::float_of_f16(bits); }
  static uint16_t store(float value) { return tensor::f16_of_float(value); }
};

// The usual case, two parts into one place: one pass. A sum over one of its parts is written with two
// pointers: with three the compiler's test for overlaps would choose its slow loop.
template <class Type>
void sum_two(const typename Type::Stored* a, const typename Type::Stored* b, int64_t count,
             typename Type::Stored* to) {
  using Stored = typename Type::Stored;
  const auto sum = [](Stored x, Stored y) {
    return Type::store(static_cast<typename Type::Sum>(Type::load(x) + Type::load(y)));
  };
  if (to == a) {
    for (int64_t i = 0; i < count; ++i) to[i] = sum(to[i], b[i]);
  } else if (to == b) {
    for (int64_t i = 0; i < count; ++i) to[i] = sum(a[i], to[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = sum(a[i], b[i]);
  }
}

// Block by block, so that the loops over elements run over vectors and the sums stay in cache.
template <class Type>
void sum_as(std::span<const void* const> parts, int64_t first, int64_t count, std::span<void* const> outputs,
            int64_t out_first) {
  using Stored = typename Type::Stored;
  using Sum = typename Type::Sum;
  if (parts.size() == 2 && outputs.size() == 1) {
    return sum_two<Type>(static_cast<const Stored*>(parts[0]) + first,
                         static_cast<const Stored*>(parts[1]) + first, count,
                         static_cast<Stored*>(outputs[0]) + out_first);
  }
  constexpr int64_t kBlock = 512;
  std::array<Sum, kBlock> sums;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    const auto part = [&](size_t which) { return static_cast<const Stored*>(parts[which]) + first + begin; };
    const Stored* own = part(0);
    for (int64_t i = 0; i < size; ++i) sums[static_cast<size_t>(i)] = Type::load(own[i]);
    for (size_t which = 1; which < parts.size(); ++which) {
      const Stored* other = part(which);
      for (int64_t i = 0; i < size; ++i)
        sums[static_cast<size_t>(i)] = static_cast<Sum>(sums[static_cast<size_t>(i)] + Type::load(other[i]));
    }
    for (void* output : outputs) {
      Stored* to = static_cast<Stored*>(output) + out_first + begin;
      for (int64_t i = 0; i < size; ++i) to[i] = Type::store(sums[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace

void sum_in_order(DType dtype, std::span<const void* const> parts, int64_t first, int64_t count,
                  std::span<void* const> outputs, int64_t out_first) {
  switch (dtype) {
    case DType::kF64:
      return sum_as<Plain<double>>(parts, first, count, outputs, out_first);
    case DType::kF32:
      return sum_as<Plain<float>>(parts, first, count, outputs, out_first);
    case DType::kBF16:
      return sum_as<BrainFloat>(parts, first, count, outputs, out_first);
    case DType::kF16:
      return sum_as<HalfFloat>(parts, first, count, outputs, out_first);
    case DType::kI64:
      return sum_as<Plain<int64_t>>(parts, first, count, outputs, out_first);
    case DType::kI32:
      return sum_as<Plain<int32_t>>(parts, first, count, outputs, out_first);
    case DType::kU16:
      return sum_as<Plain<uint16_t>>(parts, first, count, outputs, out_first);
    case DType::kU8:
      return sum_as<Plain<uint8_t>>(parts, first, count, outputs, out_first);
  }
  INGOT_CHECK(false, "data type {} has no sum", static_cast<int>(dtype));
}

}  // namespace ingot::comm
