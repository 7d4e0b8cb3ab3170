#pragma once
// Logical tensors from and to the parts that the ranks of this process hold: initialisation, checkpoints,
// export. float32 outside, the state's own type inside. Where other processes hold the rest, each of them
// makes the same calls for its own.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/ownership.h"
#include "train/rank_team.h"

namespace ingot::train {

// One persistent tensor per parameter and kind ("param", "exp_avg", "exp_avg_sq") of the ranks' programs.
class Weights {
 public:
  // `programs`: one by rank of the team, whose state must be reserved there. Borrows the team; keeps the
  // programs' code.
  Weights(RankTeam& team, const std::vector<const graph::Program*>& programs);

  // A box of the logical tensor in the state of a rank, contiguous: rows of the tensor or a part of one row.
  struct Block {
    int index = 0;  // of the rank in the team
    graph::Region region;
    tensor::TensorView view;  // of the region's shape
    bool writes = true;       // false: another rank holds the same and writes it
  };
  struct Tensor {
    std::string parameter, kind;
    const graph::Parameter* definition = nullptr;
    std::vector<Block> blocks;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view parameter, std::string_view kind) const;

  // As published, the same values on any layout; optimizer state is zeroed, derived copies become stale.
  void initialise(uint64_t seed);
  // Elements [first, first + size) of the logical tensor, row-major; what no rank here holds is left alone.
  void gather(const Tensor& tensor, int64_t first, std::span<float> out) const;
  void scatter(const Tensor& tensor, int64_t first, std::span<const float> in);
  // The state's own memory where the world is one rank and holds the tensor as float32; else empty.
  std::span<float> direct(const Tensor& tensor) const;
  void touch();  // after changes: derived copies are stale

 private:
  void add_entries(int index, const graph::Program& program);
  RankTeam& team_;
  std::vector<std::shared_ptr<const graph::StageCode>> codes_;
  std::vector<Tensor> tensors_;
  std::map<std::pair<std::string, std::string>, size_t> by_name_;  // parameter and kind
};

}  // namespace ingot::train
