#include "comm/sum.h"

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

template <class Type>
void sum_as(std::span<const void* const> parts, int64_t first, int64_t count, std::span<void* const> outputs,
            int64_t out_first) {
  using Stored = typename Type::Stored;
  for (int64_t i = 0; i < count; ++i) {
    typename Type::Sum sum = Type::load(static_cast<const Stored*>(parts[0])[first + i]);
    for (size_t part = 1; part < parts.size(); ++part)
      sum = static_cast<typename Type::Sum>(sum +
                                            Type::load(static_cast<const Stored*>(parts[part])[first + i]));
    for (void* output : outputs) static_cast<Stored*>(output)[out_first + i] = Type::store(sum);
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
