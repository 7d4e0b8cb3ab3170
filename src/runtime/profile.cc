#include "runtime/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "base/thread_pool.h"
#include "graph/ops.h"

namespace ingot::runtime {
namespace {

constexpr size_t kMaxSteps = 1024;
constexpr std::array<const char*, 4> kStreamNames = {"compute", "tp", "dp", "transfers"};

bool beside(const graph::Node& node) { return node.stream != graph::Stream::kCompute; }

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

double Attribution::instruction_seconds() const {
  double sum = 0;
  for (const KindTime& kind : kinds) sum += kind.beside_compute ? 0 : kind.seconds;
  return sum;
}

double Attribution::busy_seconds() const {
  double sum = 0;
  for (const KindTime& kind : kinds) sum += kind.busy_seconds;
  return sum;
}

double Attribution::idle_seconds() const { return instruction_seconds() * threads - busy_seconds(); }

double Attribution::other_seconds() const {
  return (wall_seconds - data_wait_seconds - instruction_seconds()) * threads;
}

std::string kind_of(const graph::Node& node) {
  return fmt::format("{}{}", graph::info(node.op).name, node.clone ? ", recomputed" : "");
}

Profiler::Profiler(const graph::Program& program, const ThreadPool& pool, size_t max_events)
    : program_(program), pool_(pool), events_(max_events) {
  steps_.reserve(kMaxSteps);
  step_busy_ns_ = busy_ns();
}

int64_t Profiler::busy_ns() const {
  int64_t sum = 0;
  for (int thread = 0; thread < pool_.threads(); ++thread) sum += pool_.busy_ns(thread);
  return sum;
}

size_t Profiler::recorded() const { return std::min(next_.load(std::memory_order_acquire), events_.size()); }

const graph::Node& Profiler::node_of(const Event& event) const {
  const graph::StageCode& code = *program_.code;
  const graph::Segment& segment = code.segments[static_cast<size_t>(event.segment)];
  return code.chunks[static_cast<size_t>(segment.chunk)].nodes[static_cast<size_t>(event.instruction->node)];
}

Observer Profiler::observer() {
  return [this](const graph::Invocation& invocation, const graph::Instruction& instruction, int64_t begin_ns,
                int64_t end_ns) {
    const size_t at = next_.fetch_add(1, std::memory_order_acq_rel);
    if (at >= events_.size()) return;
    events_[at] = {&instruction, invocation.segment, invocation.micro_batch, begin_ns, end_ns, busy_ns()};
  };
}

bool Profiler::end_step(double wall_seconds, double data_wait_seconds) {
  const bool whole = next_.load(std::memory_order_acquire) <= events_.size() && steps_.size() < kMaxSteps;
  const size_t end = recorded();
  if (whole) steps_.push_back({step_begin_, end, wall_seconds, data_wait_seconds, step_busy_ns_});
  const size_t taken = end - step_begin_;
  step_begin_ = end;
  step_busy_ns_ = busy_ns();
  return whole && end + taken <= events_.size() && steps_.size() < kMaxSteps;
}

Attribution Profiler::attribution() const {
  Attribution result;
  result.steps = steps();
  result.threads = pool_.threads();
  std::map<std::pair<std::string, bool>, KindTime> kinds;
  for (const Step& step : steps_) {
    result.wall_seconds += step.wall_seconds;
    result.data_wait_seconds += step.data_wait_seconds;
    int64_t busy_before = step.busy_before_ns;
    for (size_t i = step.begin; i < step.end; ++i) {
      const Event& event = events_[i];
      const graph::Node& node = node_of(event);
      const graph::Graph& graph = program_.code->chunks[static_cast<size_t>(
          program_.code->segments[static_cast<size_t>(event.segment)].chunk)];
      KindTime& kind = kinds[{kind_of(node), beside(node)}];
      kind.kind = kind_of(node);
      kind.beside_compute = beside(node);
      ++kind.calls;
      kind.seconds += seconds(event.end_ns - event.begin_ns);
      if (!beside(node)) {
        kind.busy_seconds += seconds(event.busy_ns - busy_before);
        busy_before = event.busy_ns;
      }
      if (graph::info(node.op).cost == nullptr) continue;
      const graph::OpCost cost = graph::info(node.op).cost(graph, node);
      kind.flops += cost.flops;
      kind.bytes += cost.bytes;
      kind.sent_bytes += cost.sent_bytes;
    }
  }
  for (auto& [name, kind] : kinds) result.kinds.push_back(std::move(kind));
  std::ranges::sort(result.kinds, std::ranges::greater{}, &KindTime::seconds);
  return result;
}

std::string Profiler::trace_json(int rank) const {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t stream = 0; stream < kStreamNames.size(); ++stream)
    out += fmt::format(
        "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}},\n",
        rank, stream, kStreamNames[stream]);
  out += fmt::format(
      "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":\"rank {}\"}}}}", rank, rank);
  const int64_t start_ns = steps_.empty() ? 0 : events_[steps_.front().begin].begin_ns;
  for (const Step& step : steps_) {
    for (size_t i = step.begin; i < step.end; ++i) {
      const Event& event = events_[i];
      const graph::Node& node = node_of(event);
      graph::Invocation invocation{};
      invocation.segment = event.segment;
      invocation.micro_batch = event.micro_batch;
      // Names of operations and values hold no character that JSON would escape.
      fmt::format_to(std::back_inserter(out),
                     ",\n{{\"ph\":\"X\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
                     "\"args\":{{\"id\":{},\"layer\":{},\"what\":\"{}\"}}}}",
                     kind_of(node), rank, static_cast<int>(node.stream),
                     static_cast<double>(event.begin_ns - start_ns) * 1e-3,
                     static_cast<double>(event.end_ns - event.begin_ns) * 1e-3, event.instruction->id,
                     node.layer, graph::describe(program_, invocation, *event.instruction));
    }
  }
  return out + "\n]}\n";
}

}  // namespace ingot::runtime
