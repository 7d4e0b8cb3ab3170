#pragma once
// The matrix-product ceiling of this machine, the peak of MFU on a CPU (design.md section 3): the best of a
// fixed list of products, 2048³ and the three of a 4096 × 768 × 3072 layer, operands from memory. Clock and
// neighbours drift, so measure once, then sample all through the run that is compared with it.

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/kernels/cpu.h"

namespace ingot::backend::cpu {

struct CeilingEntry {
  std::string name;             // "2048^3 ours", "fc forward oneDNN", …
  double flops_per_second = 0;  // median
};

class Ceiling {
 public:
  // Takes about 150 MB for operands, for as long as it lives; kIo when they cannot be had. f32 or bf16.
  static Result<std::unique_ptr<Ceiling>> create(const Cpu& cpu, tensor::DType dtype);
  ~Ceiling();

  // Every entry, median of `repetitions`; remembers the best for sample(). Some 150 ms a repetition in bf16
  // on two cores.
  std::vector<CeilingEntry> measure(int repetitions);
  // FLOP/s of the best entry, run once (some 40 ms in bf16 on two cores).
  double sample();

 private:
  Ceiling();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::backend::cpu
