// precision: the data type of every value, from one table, and the casts between them.
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "base/check.h"
#include "graph/passes/passes.h"

namespace ingot::graph {
namespace {

enum class Kind : uint8_t {
  kAsIs,        // data, or follows the first input
  kMaster,      // as parameters are kept
  kCompute,     // of matrix products
  kResidual,    // between blocks
  kAccumulate,  // sums and statistics
};

// Of an operation's activation inputs, its matrices (vectors are always masters), its first output, its
// statistics.
struct Row {
  Op op;
  Kind input, matrix, output, statistics;
};

constexpr std::array<Row, 12> kTable = {{
    {Op::kEmbed, Kind::kAsIs, Kind::kMaster, Kind::kResidual, Kind::kAsIs},
    {Op::kLinear, Kind::kCompute, Kind::kCompute, Kind::kCompute, Kind::kAsIs},
    {Op::kNorm, Kind::kResidual, Kind::kMaster, Kind::kCompute, Kind::kAccumulate},
    {Op::kRotary, Kind::kCompute, Kind::kAsIs, Kind::kCompute, Kind::kAsIs},
    {Op::kAttention, Kind::kCompute, Kind::kAsIs, Kind::kCompute, Kind::kAccumulate},
    {Op::kActivation, Kind::kCompute, Kind::kAsIs, Kind::kCompute, Kind::kAsIs},
    {Op::kAdd, Kind::kResidual, Kind::kAsIs, Kind::kResidual, Kind::kAsIs},
    {Op::kDropout, Kind::kAsIs, Kind::kAsIs, Kind::kAsIs, Kind::kAsIs},
    {Op::kHeadStats, Kind::kCompute, Kind::kCompute, Kind::kAccumulate, Kind::kAccumulate},
    {Op::kHeadLoss, Kind::kCompute, Kind::kCompute, Kind::kAsIs, Kind::kAccumulate},
    {Op::kCacheAppend, Kind::kCompute, Kind::kAsIs, Kind::kCompute, Kind::kAsIs},
    {Op::kAttentionCached, Kind::kCompute, Kind::kAsIs, Kind::kCompute, Kind::kAsIs},
}};

const Row& row_of(Op op) {
  for (const Row& row : kTable)
    if (row.op == op) return row;
  INGOT_CHECK(false, "operation {} has no row in the table of precisions", static_cast<int>(op));
  return kTable[0];
}

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::kF64:
      return DType::kF64;
    case Precision::kF32:
      return DType::kF32;
    case Precision::kBF16:
      return DType::kBF16;
    case Precision::kF16:
      return DType::kF16;
  }
  return DType::kF32;
}

class PrecisionPass {
 public:
  PrecisionPass(const Graph& from, Precision precision, std::optional<DType> residual)
      : from_(from), map_(from.values.size(), kNoValue), compute_(compute_dtype(precision)) {
    master_ = precision == Precision::kF64 ? DType::kF64 : DType::kF32;
    residual_ = precision == Precision::kF64 ? DType::kF64 : residual.value_or(compute_);
    to_.parameters = from.parameters;
    to_.layers = from.layers;
  }

  Graph run() {
    for (const Node& node : from_.nodes) copy(node);
    return std::move(to_);
  }

 private:
  DType resolve(Kind kind, DType as_is) const {
    switch (kind) {
      case Kind::kAsIs:
        return as_is;
      case Kind::kMaster:
      case Kind::kAccumulate:
        return master_;
      case Kind::kCompute:
        return compute_;
      case Kind::kResidual:
        return residual_;
    }
    return as_is;
  }

  ValueId counterpart(ValueId original) {
    ValueId& known = map_[static_cast<size_t>(original)];
    if (known != kNoValue) return known;
    Value value = from_.value(original);
    if (value.role == Role::kParameter) {
      known = to_.parameter_value(value.parameter);
      to_.value(known).dtype = master_;
      return known;
    }
    return known = to_.add_value(std::move(value));
  }

  ValueId cast(ValueId value, DType dtype, int layer) {
    if (to_.value(value).dtype == dtype) return value;
    ValueId& known = casts_.try_emplace({value, dtype}, kNoValue).first->second;
    if (known != kNoValue) return known;
    Value copy = to_.value(value);
    copy.name += "." + std::string(tensor::name_of(dtype));
    copy.dtype = dtype;
    Node node{.op = Op::kCast, .layer = layer, .inputs = {value}};
    node.outputs = {to_.add_value(std::move(copy))};
    return known = to_.add_node(std::move(node))[0];
  }

  ValueId input(const Row& row, ValueId original, int layer) {
    const ValueId id = counterpart(original);
    const Value& value = to_.value(id);
    if (value.role == Role::kActivation) return cast(id, resolve(row.input, value.dtype), layer);
    if (value.role != Role::kParameter) return id;
    return cast(id, value.logical.rank() == 1 ? master_ : resolve(row.matrix, value.dtype), layer);
  }

  void copy(const Node& original) {
    const Row& row = row_of(original.op);
    Node node = original;
    node.inputs.clear();
    node.outputs.clear();
    for (const ValueId id : original.inputs) node.inputs.push_back(input(row, id, original.layer));
    const DType followed = to_.value(node.inputs[0]).dtype;
    for (size_t i = 0; i < original.outputs.size(); ++i) {
      const ValueId id = counterpart(original.outputs[i]);
      Value& value = to_.value(id);
      const bool cache = value.role == Role::kState && original.op == Op::kCacheAppend;
      if (value.role == Role::kActivation || cache)
        value.dtype = i > 0 && !cache ? resolve(row.statistics, followed) : resolve(row.output, followed);
      node.outputs.push_back(id);
    }
    to_.add_node(std::move(node));
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> map_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
  DType compute_, master_ = DType::kF32, residual_ = DType::kF32;
};

}  // namespace

double gradient_seed(Precision precision, int64_t sequence) {
  if (precision != Precision::kF16) return 1;
  return std::ldexp(1.0, -static_cast<int>(std::bit_width(static_cast<uint64_t>(sequence - 1))));
}

Graph precision_pass(const Graph& forward, Precision precision, std::optional<DType> residual_dtype) {
  return PrecisionPass(forward, precision, residual_dtype).run();
}

}  // namespace ingot::graph
