#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "graph/ops.h"
#include "graph/program.h"

namespace ingot::graph {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;

Json operand_json(const Graph& graph, const Operand& operand) {
  const Value& value = graph.value(operand.value);
  Json json;
  json["value"] = value.name;
  json["dtype"] = tensor::name_of(value.dtype);
  Json shape = Json::array();
  for (int axis = 0; axis < value.stored.rank(); ++axis) shape.push_back(value.stored[axis]);
  json["shape"] = std::move(shape);
  json["space"] = name_of(operand.space);
  if (operand.buffer >= 0) json["buffer"] = operand.buffer;
  json["offset"] = operand.offset;
  return json;
}

Json instruction_json(const Graph& graph, const Instruction& instruction) {
  const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
  const OpCost cost = info(node.op).cost != nullptr ? info(node.op).cost(graph, node) : OpCost{};
  Json json;
  json["id"] = instruction.id;
  json["op"] = info(node.op).name;
  json["layer"] = node.layer;
  json["stream"] = static_cast<int>(node.stream);
  json["target"] = node.target;
  json["flops"] = cost.flops;
  json["bytes"] = cost.bytes;
  json["sent_bytes"] = cost.sent_bytes;
  json["inputs"] = json["outputs"] = Json::array();
  for (const Operand& operand : instruction.inputs) json["inputs"].push_back(operand_json(graph, operand));
  for (const Operand& operand : instruction.outputs) json["outputs"].push_back(operand_json(graph, operand));
  if (instruction.workspace_bytes > 0)
    json["workspace"] = {{"offset", instruction.workspace_offset}, {"bytes", instruction.workspace_bytes}};
  json["waits"] = instruction.waits;
  return json;
}

Json memory_json(const Program& program) {
  const MemoryTotals& memory = program.memory;
  return {{"state", memory.state},
          {"derived", memory.derived},
          {"step", memory.step},
          {"input", memory.input},
          {"slots", memory.slots},
          {"scratch", memory.scratch},
          {"staging", memory.staging},
          {"total", memory.total()},
          {"unrolled_live", program.unrolled_live_bytes}};
}

}  // namespace

std::string to_json(const Program& program) {
  const StageCode& code = *program.code;
  Json json;
  json["format_version"] = kFormatVersion;
  json["purpose"] = name_of(program.purpose);
  json["stage"] = program.stage;
  json["precision"] = name_of(program.precision);
  json["micro_batches"] = program.layout.micro_batches;
  json["threads"] = program.threads;
  json["memory"] = memory_json(program);
  for (const BufferPlan& buffer : code.buffers)
    json["buffers"].push_back({{"name", buffer.name},
                               {"lifetime", name_of(buffer.space)},
                               {"dtype", tensor::name_of(buffer.dtype)},
                               {"elements", buffer.elements},
                               {"bytes", buffer.bytes()},
                               {"bucket", buffer.bucket},
                               {"memory", buffer.memory.id}});
  for (const Segment& segment : code.segments) {
    Json item;
    item["phase"] = name_of(segment.phase);
    item["chunk"] = segment.chunk;
    item["scratch_bytes"] = segment.scratch_bytes;
    item["staging_bytes"] = segment.staging_bytes;
    const Graph& graph = code.chunks[static_cast<size_t>(segment.chunk)];
    for (const Instruction& instruction : segment.instructions)
      item["instructions"].push_back(instruction_json(graph, instruction));
    item["joins"] = segment.joins;
    json["segments"].push_back(std::move(item));
  }
  for (size_t c = 0; c < kSlotClasses; ++c)
    json["pools"].push_back({{"class", name_of(static_cast<Space>(c + kFirstSlotSpace))},
                             {"slot_bytes", program.pools[c].slot_bytes},
                             {"slots", program.pools[c].slots}});
  for (const Invocation& invocation : program.timeline)
    json["timeline"].push_back({{"segment", invocation.segment},
                                {"micro_batch", invocation.micro_batch},
                                {"first", invocation.first},
                                {"last", invocation.last},
                                {"group", invocation.group},
                                {"slots", invocation.slot}});
  json["transfers"] = Json::array();
  for (const Transfer& transfer : program.transfers) {
    const Value& value = code.chunks[static_cast<size_t>(transfer.chunk)].value(transfer.value);
    json["transfers"].push_back({{"id", transfer.id},
                                 {"send", transfer.send},
                                 {"value", value.name},
                                 {"bytes", value.bytes()},
                                 {"peer", transfer.peer},
                                 {"tag", transfer.tag},
                                 {"chunk", transfer.chunk},
                                 {"micro_batch", transfer.micro_batch},
                                 {"post", transfer.post},
                                 {"wait", transfer.wait},
                                 {"space", name_of(transfer.space)},
                                 {"slot", transfer.slot},
                                 {"offset", transfer.offset}});
  }
  return json.dump(1);
}

}  // namespace ingot::graph
