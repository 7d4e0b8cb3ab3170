#pragma once
// What the partition rule of an operation may ask and insert: it reads a node of the unpartitioned forward
// graph and writes its counterpart, with conversions in front where inputs lie otherwise than it needs.
// Internal to graph.

#include <map>
#include <tuple>
#include <vector>

#include "graph/ops.h"

namespace ingot::graph {

// Where the sequence is cut: all of a program over cp (fields of the batch come so from the loader), and what
// lies between blocks over tp.
struct SequenceCut {
  bool over_cp = false, over_tp = false;
};

class PartitionContext {
 public:
  // `to` has the parameters, already placed. `gradient`: the graph will be differentiated (else R and B are
  // the same and need no conversion).
  PartitionContext(const Graph& from, Graph& to, const Mesh& mesh, const SequenceCut& cut, bool gradient);

  const Mesh& mesh() const { return mesh_; }
  bool sequence() const { return cut_.over_tp; }
  Graph& to() { return to_; }
  const Value& source(ValueId value) const { return from_.value(value); }

  // The counterparts of a node's inputs; parameters, data and state are made when first asked.
  std::vector<ValueId> inputs_of(const Node& node);
  // The common placement over the axes of `axes` that are larger than 1; replicated when there is none.
  Place place(ValueId value, AxisMask axes = kTpMask) const;
  Value& value(ValueId id) { return to_.value(id); }
  void set_place(ValueId value, AxisMask axes, Place place);
  // The value, so placed on `axes`: itself, an earlier conversion, or a new node.
  ValueId convert(ValueId value, Place wanted, AxisMask axes = kTpMask);
  // Where values between blocks lie: cut along T with sequence parallelism, else replicated.
  ValueId to_residual(ValueId value);
  // Says of a parameter operand, replicated on tp, whether each rank of tp does only a part of the work that
  // uses it (then its gradient is partial there).
  void use(ValueId parameter_value, bool split);

  // Appends the counterpart of `node`: outputs by the shape rule (or the state that the original writes),
  // with names and data types of the original; maps them. `node` gives op, layer and, unless given,
  // attributes.
  std::vector<ValueId> emit(const Node& node, std::vector<ValueId> inputs, const Attributes& attributes);
  std::vector<ValueId> emit(const Node& node, std::vector<ValueId> inputs) {
    return emit(node, std::move(inputs), node.attributes);
  }
  // From now on `original` is read as `counterpart`.
  void map(ValueId original, ValueId counterpart) { map_[static_cast<size_t>(original)] = counterpart; }
  ValueId mapped(ValueId original) const { return map_[static_cast<size_t>(original)]; }
  // Appends a node that has no original.
  ValueId insert(Op op, std::vector<ValueId> inputs, const Attributes& attributes, int layer);
  void set_layer(int layer) { layer_ = layer; }  // of the conversions inserted from here on
  // Parameters whose uses disagree on whether the work is split; empty when all is well.
  const std::vector<std::string>& conflicts() const { return conflicts_; }

 private:
  enum class Use : uint8_t { kNone, kWhole, kSplit };

  ValueId counterpart(ValueId original);
  AxisMask real_axes(AxisMask axes) const;

  const Graph& from_;
  Graph& to_;
  const Mesh& mesh_;
  SequenceCut cut_;
  bool gradient_;
  int layer_ = -1;
  std::vector<ValueId> map_;
  std::vector<Use> uses_;  // of each parameter, on tp
  std::vector<std::string> conflicts_;
  std::map<std::tuple<ValueId, AxisMask, Placement, int>, ValueId> converted_;
};

}  // namespace ingot::graph
