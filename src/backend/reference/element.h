#pragma once
// Elements of a tensor of any floating type as doubles: the reference computes in double and rounds once,
// when it stores.

#include "tensor/half.h"
#include "tensor/tensor.h"

namespace ingot::backend::reference {

class Elements {
 public:
  explicit Elements(const tensor::TensorView& view) : data_(view.data), dtype_(view.dtype) {
    INGOT_CHECK(tensor::is_floating(view.dtype), "elements of type {} are no real numbers",
                tensor::name_of(view.dtype));
  }

  double operator[](int64_t i) const {
    switch (dtype_) {
      case tensor::DType::kF64:
        return static_cast<const double*>(data_)[i];
      case tensor::DType::kF32:
        return static_cast<double>(static_cast<const float*>(data_)[i]);
      case tensor::DType::kBF16:
        return static_cast<double>(tensor::float_of_bf16(static_cast<const uint16_t*>(data_)[i]));
      default:
        return static_cast<double>(tensor::float_of_f16(static_cast<const uint16_t*>(data_)[i]));
    }
  }

  void set(int64_t i, double value) const {
    switch (dtype_) {
      case tensor::DType::kF64:
        static_cast<double*>(data_)[i] = value;
        return;
      case tensor::DType::kF32:
        static_cast<float*>(data_)[i] = static_cast<float>(value);
        return;
      case tensor::DType::kBF16:
        static_cast<uint16_t*>(data_)[i] = tensor::bf16_of_float(static_cast<float>(value));
        return;
      default:
        static_cast<uint16_t*>(data_)[i] = tensor::f16_of_float(static_cast<float>(value));
        return;
    }
  }

  // Accumulating outputs.
  void add(int64_t i, double value) const { set(i, (*this)[i] + value); }
  void put(int64_t i, double value, bool overwrite) const { overwrite ? set(i, value) : add(i, value); }

 private:
  void* data_;
  tensor::DType dtype_;
};

}  // namespace ingot::backend::reference
