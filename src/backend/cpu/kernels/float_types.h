#pragma once
// Inside of this folder: f32 or bf16 memory as a type, chosen once per call.

#include "backend/cpu/kernels/bf16.h"
#include "base/check.h"
#include "tensor/tensor.h"

namespace ingot::backend::cpu {

inline void check_float(const tensor::TensorView& view) {
  INGOT_CHECK(view.dtype == tensor::DType::kF32 || view.dtype == tensor::DType::kBF16,
              "{} is neither f32 nor bf16", tensor::name_of(view.dtype));
}

inline void check_same(const tensor::TensorView& a, const tensor::TensorView& b) {
  INGOT_CHECK(a.elements() == b.elements(), "{} and {} differ in size", a.shape.to_string(),
              b.shape.to_string());
}

// body(T{}) with T the type of the elements.
template <class Body>
void with_type(tensor::DType dtype, const Body& body) {
  if (dtype == tensor::DType::kBF16) {
    body(Bf16{});
  } else {
    body(float{});
  }
}

}  // namespace ingot::backend::cpu
