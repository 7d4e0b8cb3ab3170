// The verifier against plans with faults put in: it must refuse each, and say which.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "graph/passes/draft.h"
#include "graph/targets/targets.h"
#include "graph/test_models.h"

namespace ingot::graph {
namespace {

Program make_program(int dp = 2, bool elsewhere = false, const Target& target = cpu_target(),
                     int zero_stage = 0) {
  static const Target host = [] {
    Target other = reference_target();
    other.space.id = 1;
    return other;
  }();
  CompileOptions options;
  options.targets = {&target, &host};
  options.update_on_second_target = elsewhere;
  options.layout.mesh = make_mesh(dp, 1, 1, 1, 1, 2).value();
  options.layout.micro_batches = 3;
  options.layout.zero_stage = zero_stage;
  options.recompute = Recompute::kSelective;
  Result<Program> program = compile(build_test_model({}), options);
  INGOT_CHECK(program.has_value(), "{}", program.error().message);
  return std::move(program).value();
}

// A copy whose code may be changed.
struct Mutant {
  Program program;
  StageCode code;

  explicit Mutant(const Program& original) : program(original), code(*original.code) {}
  Segment& segment(Phase phase) {
    for (Segment& segment : code.segments)
      if (segment.phase == phase) return segment;
    INGOT_CHECK(false, "no such phase");
    return code.segments.front();
  }
  Node& node(const Segment& segment, const Instruction& instruction) {
    return code.chunks[static_cast<size_t>(segment.chunk)].nodes[static_cast<size_t>(instruction.node)];
  }
  std::string refusal() {
    program.code = std::make_shared<StageCode>(code);
    const Result<void> result = verify(program);
    return result ? "" : result.error().message;
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Verify, AcceptsWhatCompileMakes) {
  EXPECT_EQ(Mutant(make_program()).refusal(), "");
  EXPECT_EQ(Mutant(make_program(1, true)).refusal(), "");
  for (int stage = 1; stage <= 3; ++stage)
    EXPECT_EQ(Mutant(make_program(4, stage == 1, cpu_target(), stage)).refusal(), "");
}

// Every live scratch value moved onto another one that lives at the same time: the reader of one of them must
// notice.
TEST(Verify, RefusesValuesThatShareBytes) {
  const Program program = make_program();
  int refused = 0;
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const size_t count = Mutant(program).segment(phase).instructions.size();
    for (size_t k = 0; k + 1 < count; ++k) {
      Mutant mutant(program);
      std::vector<Instruction>& list = mutant.segment(phase).instructions;
      if (list[k].outputs.empty() || list[k].outputs[0].space != Space::kScratch) continue;
      const ValueId moved = list[k].outputs[0].value;
      // Where the last input that this instruction reads from scratch lies, if another reads it later.
      const Operand* other = nullptr;
      for (const Operand& input : list[k].inputs)
        if (input.space == Space::kScratch && input.offset != list[k].outputs[0].offset) other = &input;
      if (other == nullptr) continue;
      const int64_t offset = other->offset;
      for (Instruction& instruction : list)
        for (std::vector<Operand>* operands : {&instruction.inputs, &instruction.outputs})
          for (Operand& operand : *operands)
            if (operand.value == moved) operand.offset = offset;
      const std::string refusal = mutant.refusal();
      EXPECT_TRUE(refusal.starts_with("The plan is wrong: "))
          << name_of(phase) << " " << k << ": " << refusal;
      ++refused;
    }
  }
  EXPECT_GE(refused, 10);
}

TEST(Verify, RefusesAReadBeforeTheWrite) {
  const Program program = make_program();
  Mutant mutant(program);
  std::vector<Instruction>& list = mutant.segment(Phase::kForward).instructions;
  std::swap(list[0], list[2]);
  EXPECT_TRUE(contains(mutant.refusal(), "whose bytes were not written or were overwritten") ||
              contains(mutant.refusal(), "before it was written"))
      << mutant.refusal();
}

TEST(Verify, RefusesAdditionsToWhatWasNotZeroed) {
  const Program program = make_program(2, false, cpu_target(), 2);
  int refused = 0;
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    for (size_t k = 0; k < Mutant(program).segment(phase).instructions.size(); ++k) {
      Mutant mutant(program);
      std::vector<Instruction>& list = mutant.segment(phase).instructions;
      if (mutant.node(mutant.segment(phase), list[k]).op != Op::kZero ||
          list[k].outputs[0].space != Space::kScratch)
        continue;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(k));
      EXPECT_TRUE(contains(mutant.refusal(), "whose bytes were not")) << mutant.refusal();
      ++refused;
    }
  }
  EXPECT_EQ(refused, static_cast<int>(program.code->buckets.size()) + 1);  // the tied table in both phases
}

TEST(Verify, RefusesAGroupThatAddsToTheOneBefore) {
  CompileOptions options;
  options.targets = {&reference_target()};
  options.layout.micro_batches = 4;
  options.layout.determinism_groups = 4;
  Mutant mutant(compile(build_test_model({}), options).value());
  EXPECT_EQ(mutant.refusal(), "");
  for (Segment& segment : mutant.code.segments)
    std::erase_if(segment.instructions, [&](const Instruction& instruction) {
      const Node& node = mutant.node(segment, instruction);
      return node.when == When::kGroup && node.group == 1 && segment.phase == Phase::kBackward;
    });
  EXPECT_TRUE(contains(mutant.refusal(), "of group 2 adds to")) << mutant.refusal();
}

TEST(Verify, RefusesAnAddressOutsideItsArea) {
  Mutant mutant(make_program());
  for (Instruction& instruction : mutant.segment(Phase::kBackward).instructions)
    for (Operand& operand : instruction.outputs)
      if (operand.space == Space::kScratch) operand.offset += int64_t{1} << 30;
  EXPECT_TRUE(contains(mutant.refusal(), "of scratch")) << mutant.refusal();
}

TEST(Verify, RefusesSlotsThatOverlap) {
  Mutant mutant(make_program());
  for (Segment& segment : mutant.code.segments)
    for (Instruction& instruction : segment.instructions)
      for (std::vector<Operand>* operands : {&instruction.inputs, &instruction.outputs})
        for (Operand& operand : *operands)
          if (operand.space == Space::kForwardBackward) operand.offset = 0;
  EXPECT_TRUE(contains(mutant.refusal(), "share bytes of a slot") || contains(mutant.refusal(), "of its own"))
      << mutant.refusal();
}

TEST(Verify, RefusesASlotWithTwoOwners) {
  Program program = make_program();
  // Two micro-batches forward before the first backward, one slot.
  std::swap(program.timeline[1], program.timeline[2]);
  EXPECT_TRUE(contains(Mutant(program).refusal(), "finds another micro-batch in its slot of class fb"))
      << Mutant(program).refusal();
  program = make_program();
  program.timeline[1].slot[0] = -1;
  EXPECT_TRUE(contains(Mutant(program).refusal(), "has slot -1")) << Mutant(program).refusal();
}

TEST(Verify, RefusesAMissingWait) {
  const Program program = make_program();
  int removed = 0, refused = 0;
  const size_t segments = program.code->segments.size();
  for (size_t s = 0; s < segments; ++s)
    for (size_t k = 0; k < program.code->segments[s].instructions.size(); ++k) {
      Mutant mutant(program);
      std::vector<int>& waits = mutant.code.segments[s].instructions[k].waits;
      if (waits.empty()) continue;
      waits.clear();
      ++removed;
      const std::string refusal = mutant.refusal();
      refused += refusal.empty() ? 0 : 1;
      EXPECT_TRUE(contains(refusal, "which may still be running") || contains(refusal, "third outstanding"))
          << refusal;
    }
  EXPECT_GE(removed, 3);
  EXPECT_EQ(removed, refused);
}

TEST(Verify, RefusesAMissingWaitOrJoinOfStagingCopies) {
  const Program program = make_program(1, true);
  int waits = 0;
  for (size_t k = 0; k < program.code->segments.back().instructions.size(); ++k) {
    Mutant mutant(program);
    Instruction& instruction = mutant.code.segments.back().instructions[k];
    if (instruction.waits.empty()) continue;
    instruction.waits.clear();
    EXPECT_NE(mutant.refusal(), "") << k;
    ++waits;
  }
  EXPECT_GE(waits, 5);
  Mutant mutant(program);
  ASSERT_FALSE(mutant.code.segments.back().joins.empty());
  mutant.code.segments.back().joins.clear();
  EXPECT_TRUE(contains(mutant.refusal(), "may still touch scratch or slots")) << mutant.refusal();
}

TEST(Verify, RefusesGradientsThatKeepTheStepBefore) {
  Mutant adds(make_program());
  Segment& backward = adds.segment(Phase::kBackward);
  for (const Instruction& instruction : backward.instructions)
    adds.node(backward, instruction).zero_first = false;
  EXPECT_TRUE(contains(adds.refusal(), "adds to a gradient left from the step before")) << adds.refusal();
  Mutant overwrites(make_program());
  Segment& again = overwrites.segment(Phase::kBackward);
  overwrites.node(again, again.instructions.back()).zero_first = true;
  for (const Instruction& instruction : again.instructions) {
    Node& node = overwrites.node(again, instruction);
    if (node.op == Op::kEmbedDw) node.zero_first = true;
  }
  EXPECT_TRUE(contains(overwrites.refusal(), "overwrites a gradient of this step")) << overwrites.refusal();
}

TEST(Verify, RefusesADerivedCopyThatNobodyMakes) {
  Mutant mutant(make_program());
  mutant.segment(Phase::kBegin).instructions.pop_back();
  EXPECT_TRUE(contains(mutant.refusal(), "which begin does not make")) << mutant.refusal();
}

TEST(Verify, RefusesAReadOfWhatOnlyTheFirstMicroBatchWrites) {
  Mutant mutant(make_program());
  Segment& segment = mutant.segment(Phase::kForward);
  for (const Instruction& instruction : segment.instructions)
    mutant.node(segment, instruction).when = When::kFirst;
  Node& last = mutant.node(segment, segment.instructions.back());
  last.when = When::kAlways;
  EXPECT_TRUE(contains(mutant.refusal(), "not written in every micro-batch")) << mutant.refusal();
}

TEST(Verify, RefusesAWorkspaceOnALiveValue) {
  const Program program = make_program(1);
  int refused = 0;
  for (size_t k = 0; k < program.code->segments.size(); ++k)
    for (size_t i = 0; i < program.code->segments[k].instructions.size(); ++i) {
      Mutant mutant(program);
      Instruction& instruction = mutant.code.segments[k].instructions[i];
      for (const Operand& input : instruction.inputs) {
        if (input.space != Space::kScratch || instruction.workspace_bytes == 0) continue;
        instruction.workspace_offset = input.offset;
        EXPECT_NE(mutant.refusal(), "") << k << " " << i;
        ++refused;
        break;
      }
    }
  EXPECT_GE(refused, 4);
}

// The programs of all stages of a tiny model.
std::vector<Program> all_stages(int stages, int virtual_stages, int micro_batches) {
  TestModel model;
  model.layers = 6;
  CompileOptions options;
  options.targets = {&reference_target()};
  options.layout.mesh.sizes[static_cast<size_t>(Axis::kPp)] = stages;
  options.layout.virtual_stages = virtual_stages;
  options.layout.schedule = virtual_stages > 1 ? "interleaved" : "1f1b";
  options.layout.micro_batches = micro_batches;
  std::vector<Program> programs;
  for (int stage = 0; stage < stages; ++stage)
    programs.push_back(compile(build_test_model(model), options, stage).value());
  return programs;
}

TEST(VerifyTransfers, EverySendMeetsItsReceive) {
  EXPECT_TRUE(verify_transfers(all_stages(4, 2, 8)).has_value());
  const std::vector<Program> good = all_stages(2, 1, 3);
  EXPECT_TRUE(verify_transfers(good).has_value());
  const auto refusal = [](const std::vector<Program>& stages) {
    const auto verified = verify_transfers(stages);
    return verified ? std::string() : verified.error().message;
  };
  const auto is_receive = [](const Transfer& transfer) { return !transfer.send; };
  std::vector<Program> stages = good;
  std::erase_if(stages[1].transfers, is_receive);
  EXPECT_TRUE(contains(refusal(stages), "(h.2.add.2, mb 0) to stage 1 of stage 0 (tag 0) meets nothing"))
      << refusal(stages);
  stages = good;
  std::erase_if(stages[0].transfers, [](const Transfer& transfer) { return transfer.send; });
  EXPECT_TRUE(contains(refusal(stages), "(h.2.add.2, mb 0) from stage 0 of stage 1 (tag 0) meets nothing"))
      << refusal(stages);
  stages = good;
  std::ranges::find_if(stages[1].transfers, is_receive)->micro_batch = 1;
  EXPECT_TRUE(contains(refusal(stages), "mb 0) to stage 1 of stage 0 meets receive #")) << refusal(stages);
  stages = good;
  auto half = std::make_shared<StageCode>(*stages[1].code);
  Value& received = half->chunks[0].value(half->chunks[0].find_value("h.2.add.2"));
  received.stored = Shape{1, 4, 8};
  stages[1].code = half;
  EXPECT_TRUE(contains(refusal(stages), "to stage 1 has 256 bytes, its receive #")) << refusal(stages);
}

// One fault in the transfers of a stage; the sentence that refuses it.
std::string transfer_refusal(const std::function<void(Program&)>& spoil, int stages = 2) {
  Program program = all_stages(stages, 1, 4)[1];
  EXPECT_TRUE(verify(program).has_value());
  spoil(program);
  const auto verified = verify(program);
  return verified ? std::string() : verified.error().message;
}

TEST(VerifyTransfers, RefusesFaultsInAStage) {
  const auto first = [](Program& program, bool send) -> Transfer& {
    return *std::ranges::find(program.transfers, send, &Transfer::send);
  };
  EXPECT_TRUE(contains(transfer_refusal([&](Program& p) { first(p, false).wait += 1; }),
                       "is awaited behind the beginning of the invocation at 0"));
  EXPECT_TRUE(contains(transfer_refusal([&](Program& p) { first(p, true).post -= 1; }),
                       "is posted ahead of the invocation at 1"));
  EXPECT_TRUE(contains(transfer_refusal([&](Program& p) { p.transfers.pop_back(); }), "has no send of"));
  EXPECT_TRUE(contains(transfer_refusal([&](Program& p) { p.transfers.push_back(p.transfers[0]); }),
                       "is made twice"));
  EXPECT_TRUE(contains(transfer_refusal([&](Program& p) { first(p, true).space = Space::kScratch; }),
                       "does not lie in a slot"));
  EXPECT_TRUE(
      contains(transfer_refusal([&](Program& p) { first(p, true).slot = 9; }), "lies outside its slot"));
  EXPECT_TRUE(
      contains(transfer_refusal([&](Program& p) { first(p, true).offset += 64; }), "lies outside its slot"));
  EXPECT_TRUE(contains(transfer_refusal([&](Program& p) { first(p, false).space = Space::kForwardBackward; }),
                       "reads class in_f, into which nothing was received"));
}

// A slot handed on while a message is in flight.
TEST(VerifyTransfers, RefusesSlotsFreedTooEarly) {
  for (const Space space : {Space::kInForward, Space::kOutForward, Space::kInBackward, Space::kOutBackward}) {
    const std::string refusal = transfer_refusal(
        [&](Program& program) {
          for (Transfer& transfer : program.transfers)
            if (transfer.space == space) transfer.slot = 0;
          for (Invocation& invocation : program.timeline) {
            int16_t& slot = invocation.slot[static_cast<size_t>(space) - kFirstSlotSpace];
            slot = std::min<int16_t>(slot, 0);
          }
        },
        3);
    EXPECT_TRUE(contains(refusal, "another micro-batch")) << name_of(space) << ": " << refusal;
  }
}

}  // namespace
}  // namespace ingot::graph
