// What reports say of a program: one instruction in words, and sums over the step.

#include <fmt/format.h>

#include "base/units.h"
#include "graph/ops.h"
#include "graph/program.h"

namespace ingot::graph {
namespace {

std::string subject(const StageCode& code, const Graph& graph, const Node& node) {
  if (node.outputs.empty()) return node.inputs.empty() ? "" : graph.value(node.inputs[0]).name;
  const Value& value = graph.value(node.outputs[0]);
  const int bucket = value.buffer >= 0 ? code.buffers[static_cast<size_t>(value.buffer)].bucket : -1;
  if (bucket < 0) return value.name;
  const BufferPlan& buffer = code.buffers[static_cast<size_t>(value.buffer)];
  const std::string_view kind = buffer.space == Space::kStep ? "gradients" : "parameters";
  if (value.role == Role::kGradient) return value.name;
  const int layer = code.buckets[static_cast<size_t>(bucket)].layer;
  if (layer < 0) return fmt::format("{} before the layers", kind);
  if (layer >= graph.layers) return fmt::format("{} after the layers", kind);
  return fmt::format("{} of layer {}", kind, layer);
}

}  // namespace

bool runs(const Node& node, const Invocation& invocation) {
  switch (node.when) {
    case When::kAlways:
      return true;
    case When::kFirst:
      return invocation.first;
    case When::kLast:
      return invocation.last;
    case When::kGroup:
      return node.group == invocation.group;
  }
  return true;
}

std::string describe(const Program& program, const Invocation& invocation, const Instruction& instruction) {
  const StageCode& code = *program.code;
  const Segment& segment = code.segments[static_cast<size_t>(invocation.segment)];
  const Graph& graph = code.chunks[static_cast<size_t>(segment.chunk)];
  const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
  int64_t bytes = 0;
  for (const ValueId id : node.outputs.empty() ? node.inputs : node.outputs)
    bytes = std::max(bytes, graph.value(id).bytes());
  const bool whole = segment.phase == Phase::kBegin || segment.phase == Phase::kFinish;
  const std::string where =
      whole ? std::string(name_of(segment.phase))
            : fmt::format("{}[{}] mb {}", name_of(segment.phase), segment.chunk, invocation.micro_batch);
  return fmt::format("{}: {} #{} ({}, {})", where, info(node.op).name, instruction.id,
                     subject(code, graph, node), format_bytes(bytes));
}

std::string describe(const Program& program, const Transfer& transfer) {
  const Graph& graph = program.code->chunks[static_cast<size_t>(transfer.chunk)];
  const int stages = program.layout.mesh.size(Axis::kPp);
  return fmt::format("{} #{} ({}, mb {}) {} stage {}", transfer.send ? "send" : "receive", transfer.id,
                     graph.value(transfer.value).name, transfer.micro_batch, transfer.send ? "to" : "from",
                     (program.stage + transfer.peer + stages) % stages);
}

StepTotals step_totals(const Program& program) {
  const StageCode& code = *program.code;
  StepTotals totals;
  for (const Invocation& invocation : program.timeline) {
    const Segment& segment = code.segments[static_cast<size_t>(invocation.segment)];
    const Graph& graph = code.chunks[static_cast<size_t>(segment.chunk)];
    for (const Instruction& instruction : segment.instructions) {
      const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
      if (!runs(node, invocation)) continue;
      ++totals.instructions;
      if (info(node.op).cost == nullptr) continue;
      const OpCost cost = info(node.op).cost(graph, node);
      totals.flops += cost.flops;
      if (node.clone) totals.recompute_flops += cost.flops;
      totals.bytes += cost.bytes;
      totals.sent_bytes += cost.sent_bytes;
    }
  }
  for (const Transfer& transfer : program.transfers)
    if (transfer.send)
      totals.sent_bytes +=
          static_cast<double>(code.chunks[static_cast<size_t>(transfer.chunk)].value(transfer.value).bytes());
  return totals;
}

}  // namespace ingot::graph
