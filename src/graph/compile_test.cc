#include "graph/compile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/units.h"
#include "graph/ops.h"
#include "graph/targets/targets.h"
#include "graph/test_models.h"

namespace ingot::graph {
namespace {

std::string read_golden(const std::string& name) {
  std::ifstream in(std::string(INGOT_SOURCE_DIR) + "/src/graph/testdata/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

CompileOptions options_for(const Target& target, Precision precision = Precision::kF32) {
  CompileOptions options;
  options.targets = {&target};
  options.precision = precision;
  return options;
}

Program compiled(Graph graph, const CompileOptions& options) {
  Result<Program> program = compile(std::move(graph), options);
  INGOT_CHECK(program.has_value(), "{}", program.error().message);
  return std::move(program).value();
}

// The first line that differs, so that a failure reads well.
void expect_same_text(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected), b(actual);
  std::string x, y;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(a, x)), more_b = static_cast<bool>(std::getline(b, y));
    if (!more_a && !more_b) return;
    ASSERT_EQ(more_a ? x : "(end)", more_b ? y : "(end)") << "line " << line;
  }
}

TEST(Golden, GptTwoOnOneRank) {
  CompileOptions options = options_for(reference_target());
  options.layout.micro_batches = 2;
  const Program program = compiled(build_test_model({}), options);
  expect_same_text(read_golden("gpt2_one_rank.program.txt"), print(program));
}

TEST(Golden, TiedModelInTwoStages) {
  const CompileOptions options = [] {
    CompileOptions result = options_for(reference_target());
    result.layout.mesh.sizes[static_cast<size_t>(Axis::kPp)] = 2;
    result.layout.micro_batches = 2;
    return result;
  }();
  TestModel model;
  model.llama = true;
  for (const int stage : {0, 1})
    expect_same_text(read_golden(fmt::format("tied_two_stages.{}.program.txt", stage)),
                     print(compile(build_test_model(model), options, stage).value()));
}

TEST(Golden, ZeroThreeWithFullRecompute) {
  CompileOptions options = options_for(reference_target());
  options.layout.mesh.sizes[static_cast<size_t>(Axis::kShard)] = 2;
  options.layout.zero_stage = 3;
  options.recompute = Recompute::kFull;
  TestModel model;
  model.llama = true;
  model.layers = 4;
  model.tied = false;
  const Program program = compiled(build_test_model(model), options);
  expect_same_text(read_golden("zero3_full_recompute.program.txt"), print(program));
}

const Segment& segment_of(const Program& program, Phase phase) {
  for (const Segment& segment : program.code->segments)
    if (segment.phase == phase) return segment;
  INGOT_CHECK(false, "no segment of phase {}", name_of(phase));
  return program.code->segments.front();
}

std::vector<const Node*> nodes_of(const Program& program, Phase phase) {
  const Segment& segment = segment_of(program, phase);
  std::vector<const Node*> nodes;
  for (const Instruction& instruction : segment.instructions)
    nodes.push_back(&program.code->chunks[static_cast<size_t>(segment.chunk)]
                         .nodes[static_cast<size_t>(instruction.node)]);
  return nodes;
}

size_t count(const Program& program, Phase phase, Op op) {
  return static_cast<size_t>(std::ranges::count(nodes_of(program, phase), op, &Node::op));
}

std::map<std::string, int64_t> buffers_of(const Program& program, Space space) {
  std::map<std::string, int64_t> result;
  for (const BufferPlan& buffer : program.code->buffers)
    if (buffer.space == space) result[buffer.name] = buffer.bytes();
  return result;
}

TestModel llama() {
  TestModel model;
  model.llama = true;
  model.heads = 4;
  model.kv_heads = 2;
  model.channels = 16;
  model.tied = false;
  return model;
}

TEST(Compile, FusedProgramsStandForTheSameWork) {
  Target unpacked = cpu_target();  // at these sizes the padding of panels outweighs what fusing saves
  unpacked.weight_layouts = nullptr;
  for (const TestModel& model : {TestModel{}, llama()}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      CompileOptions plain = options_for(reference_target()), fused = options_for(unpacked);
      plain.recompute = fused.recompute = recompute;
      const Program a = compiled(build_test_model(model), plain),
                    b = compiled(build_test_model(model), fused);
      EXPECT_EQ(step_totals(a).flops, step_totals(b).flops);
      EXPECT_EQ(step_totals(a).recompute_flops, step_totals(b).recompute_flops);
      EXPECT_LT(step_totals(b).instructions, step_totals(a).instructions);
      EXPECT_LT(step_totals(b).bytes, step_totals(a).bytes);
      EXPECT_EQ(count(b, Phase::kBackward, Op::kAdd), 0U) << print(b);
      EXPECT_GT(count(a, Phase::kBackward, Op::kAdd), 0U);
    }
  }
}

TEST(Compile, ActivationFusesWhereTheTargetOffersIt) {
  Target target = reference_target();
  target.fusions = {{"linear+activation"}};
  const Program program = compiled(build_test_model({}), options_for(target));
  EXPECT_EQ(count(program, Phase::kForward, Op::kActivation), 0U);
  size_t fused = 0;
  for (const Node* node : nodes_of(program, Phase::kForward))
    if (node->op == Op::kLinear && node->attributes.activation == ActivationKind::kGeluTanh) {
      EXPECT_EQ(node->outputs.size(), 2U);
      ++fused;
    }
  EXPECT_EQ(fused, 2U);
}

TEST(Compile, ProductsReadPackedWeightsAndNoPlainCopyIsLeft) {
  const Program program = compiled(build_test_model(llama()), options_for(cpu_target(), Precision::kBF16));
  const Graph& graph = program.code->chunks[0];
  for (const Phase phase : {Phase::kForward, Phase::kBackward})
    for (const Node* node : nodes_of(program, phase))
      if (node->op == Op::kLinear || node->op == Op::kLinearDx) {
        EXPECT_EQ(graph.value(node->inputs[1]).dtype, DType::kU8) << graph.value(node->inputs[1]).name;
      }
  for (const auto& [name, bytes] : buffers_of(program, Space::kDerived))
    EXPECT_TRUE(name.starts_with("pack.")) << name;
  EXPECT_EQ(count(program, Phase::kBegin, Op::kCast), 0U);
  // q, k, v, o, gate, up, proj of two layers and the head, both ways.
  EXPECT_EQ(count(program, Phase::kBegin, Op::kPack), 2U * (7 * 2 + 1));
  // [11, 16] in bf16, padded to a panel of 64 columns: 64 * 16 * 2; backward 64 columns of 16, 12
  // pairs-rounded rows.
  const auto derived = buffers_of(program, Space::kDerived);
  EXPECT_EQ(derived.at("pack.lm_head.weight.panel64_bf16_forward"), 64 * 16 * 2);
  EXPECT_EQ(derived.at("pack.lm_head.weight.panel64_bf16_backward"), 64 * 12 * 2);
}

TEST(Compile, ProgramsOfEveryPurposeShareOneState) {
  for (const int tp : {1, 2, 4}) {
    CompileOptions options = options_for(reference_target());
    options.layout.mesh = make_mesh(1, tp, 1, 1, 1, 2).value();
    const auto train = buffers_of(compiled(build_test_model(llama()), options), Space::kState);
    options.purpose = Purpose::kEvaluate;
    const Program evaluate = compiled(build_test_model(llama(), Purpose::kEvaluate), options);
    options.purpose = Purpose::kDecode;
    TestModel one_token = llama();
    one_token.sequence = 1;
    const Program decode = compiled(build_test_model(one_token, Purpose::kDecode), options);
    int shared = 0;
    for (const Program* other : {&evaluate, &decode})
      for (const auto& [name, bytes] : buffers_of(*other, Space::kState)) {
        if (name.starts_with("cache.")) continue;
        ASSERT_TRUE(train.contains(name)) << name;
        EXPECT_EQ(train.at(name), bytes) << name;
        ++shared;
      }
    EXPECT_GT(shared, 8);
    for (size_t b = 0; b < decode.code->buckets.size(); ++b)
      EXPECT_EQ(decode.code->buckets[b].parameters, evaluate.code->buckets[b].parameters);
    EXPECT_EQ(buffers_of(decode, Space::kStep).size(), 1U);
    EXPECT_TRUE(buffers_of(decode, Space::kStep).contains("logits"));
    EXPECT_EQ(decode.finish_segment, -1);
    EXPECT_EQ(decode.timeline.size(), 1U);
    EXPECT_FALSE(nodes_of(evaluate, Phase::kFinish).back()->attributes.update);
  }
}

TEST(Compile, DataParallelReducesEachBucketOnceAfterItsLastWriter) {
  CompileOptions options = options_for(reference_target());
  options.layout.mesh = make_mesh(2, 1, 1, 1, 1, 2).value();
  options.layout.micro_batches = 3;
  const Program program = compiled(build_test_model({}), options);
  const std::vector<const Node*> backward = nodes_of(program, Phase::kBackward);
  const Graph& graph = program.code->chunks[0];
  std::map<int, size_t> reduced;
  for (size_t k = 0; k < backward.size(); ++k) {
    const Node& node = *backward[k];
    if (node.op != Op::kAllReduce) continue;
    EXPECT_EQ(node.when, When::kLast);
    EXPECT_EQ(node.stream, Stream::kDp);
    EXPECT_EQ(node.attributes.group_size, 2);
    EXPECT_TRUE(print(program).find("{group=dp:2}; last; stream dp") != std::string::npos);
    EXPECT_TRUE(reduced.emplace(graph.value(node.outputs[0]).buffer, k).second);
  }
  EXPECT_EQ(reduced.size(), program.code->buckets.size());
  for (size_t k = 0; k < backward.size(); ++k)
    for (const ValueId id : backward[k]->outputs)
      if (graph.value(id).role == Role::kGradient) {
        EXPECT_LT(k, reduced.at(graph.value(id).buffer));
      }
  for (const Bucket& bucket : program.code->buckets) EXPECT_EQ(bucket.norm_weight, 0.5);
  // What is left running is waited for where it is read.
  size_t waiting = 0;
  for (const Instruction& instruction : segment_of(program, Phase::kFinish).instructions)
    waiting += instruction.waits.empty() ? 0 : 1;
  EXPECT_GE(waiting, 1U);
}

TEST(Compile, NormsAreSummedOverTensorParallelRanksUnderSequenceParallelism) {
  CompileOptions options = options_for(reference_target());
  options.layout.mesh = make_mesh(1, 2, 1, 1, 1, 2).value();
  const Program program = compiled(build_test_model(llama()), options);
  size_t reductions = 0;
  for (const Phase phase : {Phase::kForward, Phase::kBackward})
    for (const Node* node : nodes_of(program, phase))
      if (node->op == Op::kAllReduce && node->when == When::kLast) {
        EXPECT_EQ(group_name(node->attributes.group), "kv");
        ++reductions;
      }
  EXPECT_EQ(reductions, 3U);  // the norms of two layers and the last one
  for (const Bucket& bucket : program.code->buckets)
    EXPECT_EQ(bucket.norm_weight, bucket.decay ? 1.0 : 0.5) << bucket.id;
}

TEST(Compile, UpdateOnASecondTargetCopiesDownAndUp) {
  Target host = reference_target();
  host.space.id = 1;
  CompileOptions options = options_for(reference_target());
  options.targets.push_back(&host);
  options.update_on_second_target = true;
  const Program program = compiled(build_test_model({}), options);
  for (const BufferPlan& buffer : program.code->buffers)
    EXPECT_EQ(buffer.memory.id, buffer.name.starts_with("exp_avg") ? 1 : 0) << buffer.name;
  const size_t buckets = program.code->buckets.size();
  EXPECT_EQ(count(program, Phase::kFinish, Op::kCopy), 3 * buckets + 2);
  for (const Node* node : nodes_of(program, Phase::kFinish))
    EXPECT_EQ(node->target, node->op == Op::kAdamW ? 1 : 0);
  const int64_t largest = 2 * 768 * 4;
  EXPECT_GE(program.memory.staging, largest);
  EXPECT_LE(program.memory.staging, 3 * largest);
}

TEST(Compile, RefusesWithASentence) {
  const auto message = [](const CompileOptions& options) {
    return compile(build_test_model({}), options).error().message;
  };
  CompileOptions options = options_for(reference_target());
  options.layout.mesh.sizes[static_cast<size_t>(Axis::kShard)] = 3;
  options.layout.replica_micro_batches = {2, 5, 2};
  options.layout.micro_batches = 2;
  for (const int stage : {2, 3}) {
    options.layout.zero_stage = stage;
    EXPECT_EQ(message(options),
              fmt::format("replicas take from 2 to 5 micro-batches, and with parallel.zero_stage {} each "
                          "micro-batch makes collectives that all must make; use zero_stage 0 or 1, or equal "
                          "numbers",
                          stage));
  }
  options.layout.replica_micro_batches = {};
  options.layout.determinism_groups = 4;
  EXPECT_EQ(message(options),
            "run.determinism \"layout\" adds up gradients by groups of micro-batches, and with "
            "parallel.zero_stage 3 a rank keeps too little of them for that; use zero_stage 0 or 1");
  options.layout.zero_stage = 1;
  EXPECT_EQ(message(options),
            "run.determinism_groups is 4, which parallel.dp 3 does not divide; use a multiple of 3");
  options.layout.determinism_groups = 9;
  EXPECT_EQ(message(options),
            "a step of 6 micro-batches does not make 9 equal groups, as run.determinism_groups says; use a "
            "multiple of 9 micro-batches, or fewer groups");
  options = options_for(reference_target());
  options.layout.mesh.sizes[static_cast<size_t>(Axis::kPp)] = 5;
  EXPECT_EQ(
      message(options),
      "parallel.pp 5 with virtual_stages 1 makes 5 pieces of the model, which has 2 layers, an embedding "
      "and a head: it can be cut into 4");
  options.layout.mesh.sizes[static_cast<size_t>(Axis::kPp)] = 2;
  options.layout.first_layers = {-1, 3};
  EXPECT_EQ(message(options), "2 first layers for 2 chunks of 2 layers: they must ascend from -1");
  options.layout.first_layers.clear();
  options.purpose = Purpose::kEvaluate;
  EXPECT_EQ(message(options), "a program beside a training program needs that one's first_layers");
  options = options_for(reference_target());
  options.layout.schedule = "zb-h1";
  options.recompute = Recompute::kFull;
  EXPECT_EQ(
      message(options),
      "recompute \"full\" makes again what schedule \"zb-h1\" then keeps for its weight gradients, and saves "
      "nothing; use recompute \"selective\"");
  EXPECT_EQ(message(options_for(cpu_target(), Precision::kF64)),
            "target cpu does not compute in fp64; it does in fp32, bf16");
}

TEST(Compile, BoundedDimensionsAreStoredAtTheirMaximum) {
  Graph graph;
  Value rows;
  rows.name = "rows";
  rows.dtype = DType::kF32;
  rows.logical = Shape{3, 8};
  rows.stored = Shape{10, 8};
  rows.bound = {0, kNoValue};
  EXPECT_EQ(graph.value(graph.add_value(rows)).bytes(), 10 * 8 * 4);
}

TEST(Program, DescribesAnInstruction) {
  CompileOptions options = options_for(reference_target());
  options.layout.mesh = make_mesh(2, 1, 1, 1, 1, 2).value();
  const Program program = compiled(build_test_model({}), options);
  const Segment& segment = segment_of(program, Phase::kBackward);
  for (const Instruction& instruction : segment.instructions) {
    const Node& node = program.code->chunks[0].nodes[static_cast<size_t>(instruction.node)];
    if (node.op != Op::kAllReduce || node.layer != 1) continue;
    Invocation invocation = program.timeline[1];
    invocation.micro_batch = 7;
    EXPECT_EQ(describe(program, invocation, instruction),
              fmt::format("backward[0] mb 7: all_reduce #{} (gradients of layer 1, {})", instruction.id,
                          node.outputs.empty()
                              ? ""
                              : format_bytes(program.code->chunks[0].value(node.outputs[0]).bytes())));
    return;
  }
  FAIL() << "no reduction of layer 1";
}

TEST(Program, JsonHoldsEveryInstruction) {
  const Program program = compiled(build_test_model({}), options_for(cpu_target()));
  const auto json = nlohmann::json::parse(to_json(program));
  EXPECT_EQ(json["format_version"], 1);
  EXPECT_EQ(json["memory"]["total"], program.memory.total());
  size_t instructions = 0;
  for (const auto& segment : json["segments"]) instructions += segment["instructions"].size();
  size_t expected = 0;
  for (const Segment& segment : program.code->segments) expected += segment.instructions.size();
  EXPECT_EQ(instructions, expected);
}

}  // namespace
}  // namespace ingot::graph
