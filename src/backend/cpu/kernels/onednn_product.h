#pragma once
// One product of a fixed shape by oneDNN, called single-threaded on tiles of rows under our pool: the
// yardstick that ceiling.h holds our own products against. Training does not use it.

#include <memory>

#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu {

class OneDnnProduct {
 public:
  // y[rows, columns] = a[rows, reduction] · weights, all of one type; null where the library has no such
  // product.
  static std::unique_ptr<OneDnnProduct> create(tensor::DType dtype, int64_t rows, int64_t reduction,
                                               int64_t columns);
  ~OneDnnProduct();
  OneDnnProduct(const OneDnnProduct&) = delete;
  OneDnnProduct& operator=(const OneDnnProduct&) = delete;

  // `weights` are taken as they lie, in the library's own blocked order: columns · reduction elements of any
  // values.
  void run(const Cpu& cpu, const void* a, const void* weights, void* y) const;

 private:
  OneDnnProduct();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::backend::cpu
