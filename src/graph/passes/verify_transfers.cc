// Proves the transfers of a plan: that each value that crosses has one per micro-batch, at the right side of
// the invocation that makes or reads it; that slots have one owner at a time, those of messages in flight
// included; and, over all stages, that sends meet receives. Knows nothing of how they were placed.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

Error wrong(std::string sentence) { return invalid("The plan is wrong: " + std::move(sentence) + "."); }

bool is_slot(Space space) { return static_cast<int>(space) >= kFirstSlotSpace; }
bool is_in(Space space) { return space == Space::kInForward || space == Space::kInBackward; }
size_t slot_class(Space space) { return static_cast<size_t>(space) - kFirstSlotSpace; }

class SlotVerification {
 public:
  explicit SlotVerification(const Program& program)
      : program_(program), code_(*program.code), touches_(code_.segments.size()) {
    for (size_t s = 0; s < code_.segments.size(); ++s)
      for (const Instruction& instruction : code_.segments[s].instructions)
        for (const std::vector<Operand>* operands : {&instruction.inputs, &instruction.outputs})
          for (const Operand& operand : *operands)
            if (is_slot(operand.space)) touches_[s][slot_class(operand.space)] = true;
    for (const Graph& chunk : code_.chunks) {
      crossings_.emplace_back();
      for (const Node& node : chunk.nodes)
        if (node.op == Op::kSend || node.op == Op::kReceive) crossings_.back().push_back(&node);
    }
  }

  Result<void> run() {
    for (const Transfer& transfer : program_.transfers) INGOT_TRY_VOID(check_place(transfer));
    INGOT_TRY_VOID(check_completeness());
    std::vector<std::vector<const Transfer*>> posts(program_.timeline.size() + 1), waits(posts.size());
    for (const Transfer& transfer : program_.transfers) {
      posts[static_cast<size_t>(transfer.post)].push_back(&transfer);
      waits[static_cast<size_t>(transfer.wait)].push_back(&transfer);
    }
    for (size_t position = 0; position < posts.size(); ++position) {
      for (const Transfer* transfer : posts[position]) INGOT_TRY_VOID(post(*transfer));
      for (const Transfer* transfer : waits[position]) INGOT_TRY_VOID(check_owner(*transfer));
      if (position < program_.timeline.size()) INGOT_TRY_VOID(invoke(program_.timeline[position]));
    }
    return {};
  }

 private:
  using Owner = std::pair<int, int>;  // chunk, micro-batch

  Result<void> check_place(const Transfer& transfer) const {
    const std::string where = describe(program_, transfer);
    if (transfer.post < 0 || transfer.wait < transfer.post ||
        transfer.wait > static_cast<int>(program_.timeline.size()))
      return wrong(fmt::format("{} is posted at {} and awaited at {}", where, transfer.post, transfer.wait));
    if (!is_slot(transfer.space)) return wrong(where + " does not lie in a slot");
    const Pool& pool = program_.pools[slot_class(transfer.space)];
    const int64_t bytes = code_.chunks[static_cast<size_t>(transfer.chunk)].value(transfer.value).bytes();
    if (transfer.slot < 0 || transfer.slot >= pool.slots || transfer.offset < 0 ||
        transfer.offset + bytes > pool.slot_bytes)
      return wrong(where + " lies outside its slot");
    return {};
  }

  // Each send and receive of a chunk's graph, once for each invocation of its phase: receives before it,
  // sends behind it.
  Result<void> check_completeness() const {
    std::map<std::tuple<int, ValueId, bool, int, int>, const Transfer*> transfers;
    for (const Transfer& transfer : program_.transfers) {
      const auto key =
          std::tuple(transfer.chunk, transfer.value, transfer.send, transfer.tag, transfer.micro_batch);
      if (!transfers.emplace(key, &transfer).second)
        return wrong(describe(program_, transfer) + " is made twice");
    }
    size_t needed = 0;
    for (size_t position = 0; position < program_.timeline.size(); ++position) {
      const Invocation& invocation = program_.timeline[position];
      const Segment& segment = code_.segments[static_cast<size_t>(invocation.segment)];
      for (const Node* node : crossings_[static_cast<size_t>(segment.chunk)]) {
        if (node->phase != segment.phase) continue;
        ++needed;
        const bool send = node->op == Op::kSend;
        const ValueId value = send ? node->inputs[0] : node->outputs[0];
        const auto found =
            transfers.find({segment.chunk, value, send, node->attributes.tag, invocation.micro_batch});
        if (found == transfers.end())
          return wrong(fmt::format("{}[{}] mb {} has no {} of {}", name_of(segment.phase), segment.chunk,
                                   invocation.micro_batch, send ? "send" : "receive",
                                   code_.chunks[static_cast<size_t>(segment.chunk)].value(value).name));
        const Transfer& transfer = *found->second;
        const int at = static_cast<int>(position);
        if (send ? transfer.post <= at : transfer.wait > at)
          return wrong(fmt::format("{} is {} of the invocation at {}", describe(program_, transfer),
                                   send ? "posted ahead" : "awaited behind the beginning", at));
      }
    }
    if (needed != transfers.size())
      return wrong(fmt::format("{} transfers are made where {} are needed", transfers.size(), needed));
    return {};
  }

  Result<void> post(const Transfer& transfer) {
    const size_t c = slot_class(transfer.space);
    const Owner self{transfer.chunk, transfer.micro_batch};
    if (!transfer.send && filled_.insert({self, c}).second) owners_[{c, transfer.slot}] = self;
    return check_owner(transfer);
  }

  Result<void> check_owner(const Transfer& transfer) const {
    const auto found = owners_.find({slot_class(transfer.space), transfer.slot});
    if (found != owners_.end() && found->second == Owner{transfer.chunk, transfer.micro_batch}) return {};
    return wrong(describe(program_, transfer) + " is in flight in the slot of another micro-batch");
  }

  // An invocation finds its own micro-batch in each slot that it touches.
  Result<void> invoke(const Invocation& invocation) {
    const Segment& segment = code_.segments[static_cast<size_t>(invocation.segment)];
    const Owner self{segment.chunk, invocation.micro_batch};
    const std::string where =
        fmt::format("{}[{}] mb {}", name_of(segment.phase), segment.chunk, invocation.micro_batch);
    for (size_t c = 0; c < kSlotClasses; ++c) {
      if (!touches_[static_cast<size_t>(invocation.segment)][c]) continue;
      const auto space = static_cast<Space>(c + kFirstSlotSpace);
      const int slot = invocation.slot[c];
      if (slot < 0 || slot >= program_.pools[c].slots)
        return wrong(fmt::format("{} has slot {} of {} of class {}", where, slot, program_.pools[c].slots,
                                 name_of(space)));
      if (filled_.insert({self, c}).second) {
        if (is_in(space))
          return wrong(
              fmt::format("{} reads class {}, into which nothing was received", where, name_of(space)));
        owners_[{c, slot}] = self;
        continue;
      }
      const auto found = owners_.find({c, slot});
      if (found == owners_.end() || found->second != self)
        return wrong(
            fmt::format("{} finds another micro-batch in its slot of class {}", where, name_of(space)));
    }
    return {};
  }

  const Program& program_;
  const StageCode& code_;
  std::vector<std::array<bool, kSlotClasses>> touches_;  // per segment
  std::vector<std::vector<const Node*>> crossings_;      // per chunk: its sends and receives
  std::map<std::pair<size_t, int>, Owner> owners_;       // by class and slot
  std::set<std::pair<Owner, size_t>> filled_;
};

}  // namespace

Result<void> verify_slot_owners(const Program& program) { return SlotVerification(program).run(); }

Result<void> verify_transfers(std::span<const Program> stages) {
  using Lane = std::tuple<int, int, int>;  // from, to, tag
  struct Message {
    const Program* program = nullptr;
    const Transfer* transfer = nullptr;
  };
  std::map<Lane, std::vector<Message>> sends, receives;
  const int count = static_cast<int>(stages.size());
  for (const Program& program : stages)
    for (const Transfer& transfer : program.transfers) {
      const int other = (program.stage + transfer.peer + count) % count;
      const Lane lane =
          transfer.send ? Lane{program.stage, other, transfer.tag} : Lane{other, program.stage, transfer.tag};
      (transfer.send ? sends : receives)[lane].push_back({&program, &transfer});
    }
  const auto unmet = [](const Message& message) {
    return wrong(fmt::format("{} of stage {} (tag {}) meets nothing",
                             describe(*message.program, *message.transfer), message.program->stage,
                             message.transfer->tag));
  };
  const auto bytes = [](const Message& message) {
    return message.program->code->chunks[static_cast<size_t>(message.transfer->chunk)]
        .value(message.transfer->value)
        .bytes();
  };
  for (const auto& [lane, messages] : receives)
    if (!sends.contains(lane)) return unmet(messages.front());
  for (const auto& [lane, sent] : sends) {
    const std::vector<Message>& received = receives[lane];
    for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
      if (i >= sent.size()) return unmet(received[i]);
      if (i >= received.size()) return unmet(sent[i]);
      const Transfer &send = *sent[i].transfer, &receive = *received[i].transfer;
      if (send.micro_batch != receive.micro_batch)
        return wrong(fmt::format("{} of stage {} meets {}", describe(*sent[i].program, send),
                                 sent[i].program->stage, describe(*received[i].program, receive)));
      if (bytes(sent[i]) != bytes(received[i]))
        return wrong(fmt::format("{} has {} bytes, its receive #{} {}", describe(*sent[i].program, send),
                                 bytes(sent[i]), receive.id, bytes(received[i])));
    }
  }
  return {};
}

}  // namespace ingot::graph
