// The text form. Its grammar is docs/formats/program.md: change both together.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "graph/ops.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

constexpr std::array<std::string_view, kSpaceCount> kSpaceNames = {
    "state", "derived", "step", "input", "scratch", "staging", "fb",
    "fw",    "bw",      "in_f", "out_f", "in_b",    "out_b"};
constexpr std::array<std::string_view, kPhaseCount> kPhaseNames = {"begin", "forward", "backward", "weight",
                                                                   "finish"};
constexpr std::array<std::string_view, kStreamCount> kStreamNames = {"compute", "tp", "dp", "transfer", "cp"};
constexpr std::array<std::string_view, 5> kActivationNames = {"none", "gelu_tanh", "gelu_erf", "silu",
                                                              "swiglu"};
constexpr std::array<std::string_view, 3> kPurposeNames = {"train", "evaluate", "decode"};

template <class Enum, size_t N>
std::string_view row(const std::array<std::string_view, N>& names, Enum value) {
  return names[static_cast<size_t>(value)];
}

// A group that takes in every rank of tp or dp is called so, whatever prime axes these consist of.
std::string group_of(const Mesh& mesh, AxisMask group) {
  if (group == 0) return "-";
  unsigned whole = group;
  for (const AxisMask family : {kTpMask, kDpMask}) {
    const auto inside = static_cast<AxisMask>(group & family);
    if (inside != 0 && mesh.group_size(inside) == mesh.group_size(family)) whole |= family;
  }
  return group_name(static_cast<AxisMask>(whole));
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program), code_(*program.code) {}

  std::string run() {
    print_title();
    print_buckets();
    print_buffers();
    for (size_t s = 0; s < code_.segments.size(); ++s) print_segment(s);
    print_timeline();
    return std::move(text_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void print_title() {
    std::string targets;
    for (const Target* target : program_.targets) targets += fmt::format(" {}", target->name);
    const Mesh& mesh = program_.layout.mesh;
    line("program {}, stage {} of {}, {}, targets{}", row(kPurposeNames, program_.purpose), program_.stage,
         mesh.size(Axis::kPp), name_of(program_.precision), targets);
    line("mesh dp {} tp {} cp {} ep {} pp {}, zero {}, {} micro-batches, {}",
         mesh.group_size(kDpMask) * mesh.size(Axis::kEp), mesh.group_size(kTpMask), mesh.size(Axis::kCp),
         mesh.size(Axis::kEp), mesh.size(Axis::kPp), program_.layout.zero_stage,
         program_.layout.micro_batches, program_.layout.schedule);
  }

  void print_buckets() {
    line("\nbuckets");
    const std::vector<Parameter>& parameters = code_.chunks.front().parameters;
    for (const Bucket& bucket : code_.buckets) {
      std::string rest;
      if (bucket.learning_rate_factor != 1) rest += fmt::format(", rate x{}", bucket.learning_rate_factor);
      rest += fmt::format(", {} elements", bucket.elements);
      if (bucket.shard_elements != bucket.elements)
        rest += fmt::format(", shard of {}", bucket.shard_elements);
      line("  {}: layer {}, {}{}, reduce {}, replicas {}, norm weight {}", bucket.id, bucket.layer,
           bucket.decay ? "decay" : "no decay", rest, group_of(program_.layout.mesh, bucket.reduce_axes),
           group_of(program_.layout.mesh, bucket.replica_axes), bucket.norm_weight);
      for (const int index : bucket.parameters) {
        const Parameter& parameter = parameters[static_cast<size_t>(index)];
        line("    {} {}", parameter.name, parameter.stored.to_string());
      }
    }
  }

  void print_buffers() {
    line("\nbuffers");
    std::vector<BufferPlan> sorted = code_.buffers;
    std::ranges::stable_sort(sorted, {}, &BufferPlan::space);
    for (const BufferPlan& buffer : sorted)
      line("  {} {}: {} {}{}", name_of(buffer.space), buffer.name, tensor::name_of(buffer.dtype),
           buffer.shape.to_string(), buffer.micro_batch_elements > 0 ? " per micro-batch" : "");
  }

  void print_segment(size_t index) {
    const Segment& segment = code_.segments[index];
    const Graph& graph = code_.chunks[static_cast<size_t>(segment.chunk)];
    const bool whole = segment.phase == Phase::kBegin || segment.phase == Phase::kFinish;
    line("\nsegment {}: {}{}", index, name_of(segment.phase),
         whole ? "" : fmt::format("[{}]", segment.chunk));
    for (const Instruction& instruction : segment.instructions) print_instruction(graph, instruction);
    if (segment.joins.empty()) return;
    std::string joins;
    for (const int id : segment.joins) joins += fmt::format(" #{}", id);
    line("  joins{}", joins);
  }

  void print_instruction(const Graph& graph, const Instruction& instruction) {
    const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
    std::string words = fmt::format("  #{} {}", instruction.id, info(node.op).name);
    for (const ValueId id : node.inputs) words += fmt::format(" {}", graph.value(id).name);
    words += " ->";
    for (const Operand& output : instruction.outputs) words += output_text(graph, node, output);
    const std::string attributes = attributes_text(node);
    if (!attributes.empty()) words += fmt::format(" {{{}}}", attributes);
    if (node.when == When::kFirst) words += "; first";
    if (node.when == When::kLast) words += "; last";
    if (node.when == When::kGroup) words += fmt::format("; group {}", node.group);
    if (node.zero_first) words += "; zero first";
    if (node.stream != Stream::kCompute) words += fmt::format("; stream {}", row(kStreamNames, node.stream));
    if (node.target != 0) words += fmt::format("; on {}", program_.targets[node.target]->name);
    if (node.clone) words += "; again";
    if (!instruction.waits.empty()) {
      words += "; waits";
      for (const int id : instruction.waits) words += fmt::format(" #{}", id);
    }
    line("{}", words);
  }

  std::string output_text(const Graph& graph, const Node& node, const Operand& output) const {
    const Value& value = graph.value(output.value);
    const bool sums = node.op == Op::kSumSquares || node.op == Op::kHeadLoss;
    if (value.role == Role::kGradient || (sums && value.role == Role::kState)) return " += " + value.name;
    if (value.buffer >= 0 || value.base != kNoValue || std::ranges::count(node.inputs, output.value) > 0)
      return " = " + value.name;
    std::string text =
        fmt::format(" {}: {} {}", value.name, tensor::name_of(value.dtype), value.stored.to_string());
    for (int axis = 0; axis < kAxisCount; ++axis) {
      const Place& place = value.places[static_cast<size_t>(axis)];
      if (program_.layout.mesh.size(static_cast<Axis>(axis)) == 1) continue;
      const char* name = kAxisNames[static_cast<size_t>(axis)];
      if (place.kind == Placement::kBroadcast) text += fmt::format(" {}=B", name);
      if (place.kind == Placement::kSharded) text += fmt::format(" {}=S({})", name, place.dim);
      if (place.kind == Placement::kPartial) text += fmt::format(" {}=P", name);
    }
    if (static_cast<int>(output.space) >= kFirstSlotSpace) text += fmt::format(" @{}", name_of(output.space));
    return text;
  }

  std::string attributes_text(const Node& node) const {
    const Attributes& a = node.attributes;
    const Attributes plain;
    std::string text;
    const auto add = [&](std::string_view key, const auto& value, const auto& usual) {
      if (value == usual) return;
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
    };
    const auto flag = [&](std::string_view key, bool value) {
      if (value) text += fmt::format("{}{}", text.empty() ? "" : ", ", key);
    };
    if (a.group != 0)
      text += fmt::format("group={}:{}", group_of(program_.layout.mesh, a.group), a.group_size);
    add("dim", int{a.dim}, int{plain.dim});
    flag("gradient_partial", a.gradient_partial);
    if (!a.sent_rows.empty())
      text +=
          fmt::format(", sent={}, received={}", fmt::join(a.sent_rows, "/"), fmt::join(a.received_rows, "/"));
    add("peer", a.peer, plain.peer);
    add("tag", a.tag, plain.tag);
    if (a.activation != plain.activation)
      add("activation", row(kActivationNames, a.activation), std::string_view());
    flag("rms", a.rms);
    add("epsilon", a.epsilon, plain.epsilon);
    add("head_dim", a.head_dim, plain.head_dim);
    add("scale", a.scale, plain.scale);
    add("theta", a.theta, plain.theta);
    add("rope_factor", a.rope_factor, plain.rope_factor);
    add("rope_low", a.rope_low, plain.rope_low);
    add("rope_high", a.rope_high, plain.rope_high);
    add("rope_original", a.rope_original, plain.rope_original);
    flag("inverse", a.inverse);
    flag("document_positions", a.document_positions);
    add("rate", a.rate, plain.rate);
    if (a.rate > 0) text += fmt::format(", site={}", a.site);
    add("weight", a.weight, plain.weight);
    add("vocabulary", a.vocabulary, plain.vocabulary);
    flag("with_gradient", a.with_gradient);
    add("beta1", a.beta1, plain.beta1);
    add("beta2", a.beta2, plain.beta2);
    add("weight_decay", a.weight_decay, plain.weight_decay);
    add("learning_rate_factor", a.learning_rate_factor, plain.learning_rate_factor);
    add("clip", a.clip, plain.clip);
    flag("no_update", !a.update);
    add("layout", a.layout, plain.layout);
    return text;
  }

  void print_timeline() {
    line("\ntimeline");
    for (const Invocation& invocation : program_.timeline) {
      const Segment& segment = code_.segments[static_cast<size_t>(invocation.segment)];
      if (segment.phase == Phase::kFinish) {
        line("  finish");
        continue;
      }
      line("  {}[{}] mb {}{}{}", name_of(segment.phase), segment.chunk, invocation.micro_batch,
           invocation.first ? " first" : "",
           (invocation.group >= 0 ? fmt::format(" group {}", invocation.group) : "") +
               (invocation.last ? " last" : ""));
    }
    if (program_.transfers.empty()) return;
    line("\ntransfers");
    for (const Transfer& transfer : program_.transfers)
      line("  #{} {} {} {} {:+} mb {} post {} wait {} @{}", transfer.id, transfer.send ? "send" : "receive",
           code_.chunks[static_cast<size_t>(transfer.chunk)].value(transfer.value).name,
           transfer.send ? "to" : "from", transfer.peer, transfer.micro_batch, transfer.post, transfer.wait,
           name_of(transfer.space));
  }

  const Program& program_;
  const StageCode& code_;
  std::string text_;
};

}  // namespace

std::string_view name_of(Space space) { return row(kSpaceNames, space); }
std::string_view name_of(Phase phase) { return row(kPhaseNames, phase); }
std::string_view name_of(Purpose purpose) { return row(kPurposeNames, purpose); }

std::string print(const Program& program) { return Printer(program).run(); }

}  // namespace ingot::graph
