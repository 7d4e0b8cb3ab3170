#pragma once
// Whole logical tensors from and to the parts that ranks hold: initialisation, checkpoints, export. float32
// outside, the state's own type inside.

#include <span>
#include <string>
#include <vector>

#include "train/rank_team.h"

namespace ingot::train {

// One persistent tensor per parameter and kind ("param", "exp_avg", "exp_avg_sq") of a program, over all
// ranks.
class Weights {
 public:
  // Borrows the team and the program, whose state must be reserved on every rank.
  Weights(RankTeam& team, const graph::Program& program);

  struct Tensor {
    std::string parameter, kind;
    const graph::Parameter* definition = nullptr;
    std::vector<tensor::TensorView> parts;  // by rank, stored shape
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view parameter, std::string_view kind) const;

  // As published, the same values on any layout; optimizer state is zeroed, derived copies become stale.
  void initialise(uint64_t seed);
  // `out` and `in` hold the logical tensor, row-major float32.
  void gather(const Tensor& tensor, std::span<float> out) const;
  void scatter(const Tensor& tensor, std::span<const float> in);
  // The state's own memory where one rank holds the whole tensor as float32 without padding; else empty.
  std::span<float> direct(const Tensor& tensor) const;
  void touch();  // after changes: derived copies are stale

 private:
  RankTeam& team_;
  const graph::Program& program_;
  std::vector<Tensor> tensors_;
};

}  // namespace ingot::train
