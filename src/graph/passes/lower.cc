// Rewrites coarse nodes for the mesh. Attention over cp: partition gathers keys and values; the ring form
// lets blocks of them go from rank to rank instead, while each rank works on the one that it has. Attention
// to each block is made alone and merged by its log-sum-exp; backward starts from the final output and
// log-sum-exp, and the gradients of a block's keys and values travel with it, one step behind, until it is
// home.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

// Operands of attention, then of its gradient.
constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kQueryPosition = 3, kKeyPosition = 4, kDocStart = 5;
constexpr size_t kGradKeyPosition = 7;

class RingLowering {
 public:
  RingLowering(Graph& graph, const Mesh& mesh)
      : graph_(graph), size_(mesh.group_size(kCpMask)), nodes_(std::move(graph.nodes)) {
    producer_.assign(graph.values.size(), -1);
    for (size_t k = 0; k < nodes_.size(); ++k)
      for (const ValueId output : nodes_[k].outputs)
        if (int& first = producer_[index(output)]; first < 0) first = static_cast<int>(k);
    removed_.assign(nodes_.size(), false);
    find_scatters();
  }

  void run() {
    graph_.nodes.clear();
    for (size_t k = 0; k < nodes_.size(); ++k) {
      const Node node = nodes_[k];
      if (removed_[k]) continue;
      if (node.op == Op::kAttention && gathered(node, kKeyPosition)) {
        forward(node);
      } else if (node.op == Op::kAttentionGrad && gathered(node, kGradKeyPosition) && scattered(node)) {
        backward(node);
      } else {
        graph_.nodes.push_back(node);
      }
    }
    drop_unread_gathers();
  }

 private:
  static size_t index(int id) { return static_cast<size_t>(id); }
  Value& value(ValueId id) { return graph_.value(id); }

  // What was gathered over cp into `id`, if it was.
  ValueId source(ValueId id) const {
    const int from = producer_[index(id)];
    if (from < 0) return kNoValue;
    const Node& node = nodes_[index(from)];
    return node.op == Op::kAllGather && node.attributes.group == kCpMask ? node.inputs[0] : kNoValue;
  }
  bool gathered(const Node& node, size_t position) const {
    return std::ranges::all_of(std::array{kKey, kValue, position},
                               [&](size_t i) { return source(node.inputs[i]) != kNoValue; });
  }

  // Per value its one reader, where that scatters it over cp; else -1.
  void find_scatters() {
    std::vector<int> readers(graph_.values.size(), 0);
    scatter_.assign(graph_.values.size(), -1);
    for (size_t k = 0; k < nodes_.size(); ++k)
      for (const ValueId input : nodes_[k].inputs) {
        const bool scatters = nodes_[k].op == Op::kReduceScatter && nodes_[k].attributes.group == kCpMask;
        scatter_[index(input)] = ++readers[index(input)] == 1 && scatters ? static_cast<int>(k) : -1;
      }
  }
  bool scattered(const Node& node) const {
    return scatter_[index(node.outputs[kKey])] >= 0 && scatter_[index(node.outputs[kValue])] >= 0;
  }

  // A value like `from`, of `dtype`.
  ValueId made(ValueId from, DType dtype, const std::string& suffix) {
    Value copy = value(from);
    copy.dtype = dtype;
    copy.name += suffix;
    return graph_.add_value(std::move(copy));
  }
  // Sums over blocks are as wide as statistics.
  static DType wide(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

  // Appends a node beside `like`: its phase, layer, clone and target.
  void append(const Node& like, Op op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
              const Attributes& attributes) {
    Node node{.op = op,
              .phase = like.phase,
              .target = like.target,
              .clone = like.clone,
              .layer = like.layer,
              .inputs = std::move(inputs),
              .outputs = std::move(outputs)};
    node.attributes = attributes;
    if (op == Op::kRingShift) node.stream = Stream::kCp;
    graph_.nodes.push_back(std::move(node));
  }

  void shift(const Node& like, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    append(like, Op::kRingShift, std::move(inputs), std::move(outputs),
           {.group = kCpMask, .group_size = size_});
  }

  // The same for all layers, and the backward finds them made.
  void make_positions(const Node& like, ValueId own) {
    if (!positions_.empty()) return;
    positions_.push_back(own);
    for (int step = 1; step < size_; ++step) {
      const ValueId next = made(own, value(own).dtype, fmt::format(".ring{}", step));
      shift(like, {positions_.back()}, {next});
      positions_.push_back(next);
    }
  }

  struct Block {
    ValueId key = kNoValue, value = kNoValue;
  };
  // Sets off for `step` + 1 before this step works on the block: both read it.
  Block next_block(const Node& like, const Block& block, int step) {
    if (step + 1 == size_) return {};
    const std::string suffix = fmt::format(".ring{}", step + 1);
    const Block next{made(own_.key, value(own_.key).dtype, suffix),
                     made(own_.value, value(own_.value).dtype, suffix)};
    shift(like, {block.key, block.value}, {next.key, next.value});
    return next;
  }

  void forward(const Node& node) {
    own_ = {source(node.inputs[kKey]), source(node.inputs[kValue])};
    make_positions(node, source(node.inputs[kKeyPosition]));
    const ValueId o = node.outputs[0], lse = node.outputs[1];
    ValueId sum = kNoValue, sum_lse = kNoValue;
    Block block = own_;
    for (int step = 0; step < size_; ++step) {
      const Block next = next_block(node, block, step);
      const std::string suffix = fmt::format(".block{}", step);
      const ValueId part = made(o, value(o).dtype, suffix), part_lse = made(lse, value(lse).dtype, suffix);
      append(node, Op::kAttention,
             {node.inputs[kQuery], block.key, block.value, node.inputs[kQueryPosition],
              positions_[index(step)], node.inputs[kDocStart]},
             {part, part_lse}, node.attributes);
      if (step == 0) {
        sum = part;
        sum_lse = part_lse;
      } else {
        const bool last = step + 1 == size_;
        const ValueId merged = last ? o : made(o, wide(value(o).dtype), ".merged");
        const ValueId merged_lse = last ? lse : made(lse, value(lse).dtype, ".merged");
        append(node, Op::kAttentionMerge, {sum, sum_lse, part, part_lse}, {merged, merged_lse}, {});
        sum = merged;
        sum_lse = merged_lse;
      }
      block = next;
    }
  }

  // `sum` + `part`, in the wide type; what is `part` alone is widened where it must be.
  ValueId added(const Node& like, ValueId sum, ValueId part) {
    const DType dtype = value(part).dtype;
    if (sum == kNoValue && wide(dtype) == dtype) return part;
    const ValueId result = made(part, wide(dtype), ".sum");
    if (sum == kNoValue) {
      append(like, Op::kCast, {part}, {result}, {});
    } else {
      append(like, Op::kAdd, {sum, part}, {result}, {});
    }
    return result;
  }

  // The value that the last of the appended nodes makes becomes `result`, through a cast where types differ.
  void finish(const Node& like, ValueId sum, ValueId result) {
    if (value(sum).dtype != value(result).dtype) {
      append(like, Op::kCast, {sum}, {result}, {});
      return;
    }
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const auto output = std::ranges::find(node->outputs, sum);
      if (output == node->outputs.end()) continue;
      *output = result;
      return;
    }
  }

  void backward(const Node& node) {
    own_ = {source(node.inputs[kKey]), source(node.inputs[kValue])};
    make_positions(node, source(node.inputs[kGradKeyPosition]));
    std::array<ValueId, 3> sums{kNoValue, kNoValue, kNoValue};
    Block block = own_;
    for (int step = 0; step < size_; ++step) {
      const Block next = next_block(node, block, step);
      std::vector<ValueId> inputs = node.inputs;
      inputs[kKey] = block.key;
      inputs[kValue] = block.value;
      inputs[kGradKeyPosition] = positions_[index(step)];
      const std::string suffix = fmt::format(".block{}", step);
      std::vector<ValueId> parts;
      for (const size_t i : {kQuery, kKey, kValue}) {
        const ValueId like = i == kQuery ? node.outputs[i] : scatter_result(node.outputs[i]);
        parts.push_back(made(like, value(like).dtype, suffix));
      }
      append(node, Op::kAttentionGrad, std::move(inputs), parts, node.attributes);
      for (const size_t i : {kQuery, kKey, kValue}) sums[i] = added(node, sums[i], parts[i]);
      std::vector<ValueId> arrived;
      for (const size_t i : {kKey, kValue})
        arrived.push_back(made(sums[i], value(sums[i]).dtype, fmt::format(".ring{}", step + 1)));
      shift(node, {sums[kKey], sums[kValue]}, arrived);
      sums[kKey] = arrived[0];
      sums[kValue] = arrived[1];
      block = next;
    }
    finish(node, sums[kQuery], node.outputs[kQuery]);
    for (const size_t i : {kKey, kValue}) {
      finish(node, sums[i], scatter_result(node.outputs[i]));
      removed_[index(scatter_[index(node.outputs[i])])] = true;
    }
  }

  ValueId scatter_result(ValueId gradient) const {
    return nodes_[index(scatter_[index(gradient)])].outputs[0];
  }

  void drop_unread_gathers() {
    std::vector<bool> read(graph_.values.size(), false);
    for (const Node& node : graph_.nodes)
      for (const ValueId input : node.inputs) read[index(input)] = true;
    std::erase_if(graph_.nodes, [&](const Node& node) {
      return node.op == Op::kAllGather && node.attributes.group == kCpMask && !read[index(node.outputs[0])];
    });
  }

  Graph& graph_;
  const int size_;
  std::vector<Node> nodes_;
  std::vector<int> producer_;
  std::vector<int> scatter_;
  std::vector<bool> removed_;
  std::vector<ValueId> positions_;  // of the block that a rank has at each step
  Block own_;
};

}  // namespace

void lower(Graph& graph, const Layout& layout) {
  if (layout.mesh.group_size(kCpMask) > 1 && layout.context_mode == ContextMode::kRing)
    RingLowering(graph, layout.mesh).run();
}

}  // namespace ingot::graph
