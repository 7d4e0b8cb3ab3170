#include <algorithm>
#include <deque>

#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

constexpr size_t kWindow = 2;  // outstanding asynchronous instructions of a stream
constexpr size_t kStreams = kStreamCount;

// The bytes that an operand names, so far as they can be compared before memory is planned: a root value of a
// chunk, or a stretch of a persistent buffer.
struct Touch {
  int buffer = -1;
  ValueId root = kNoValue;
  int64_t begin = 0, end = 0;

  bool overlaps(const Touch& other) const {
    if (buffer >= 0 || other.buffer >= 0)
      return buffer == other.buffer && begin < other.end && other.begin < end;
    return root == other.root;
  }
};

struct Touches {
  std::vector<Touch> reads, writes;
};

Touch touch_of(const Mesh& mesh, const Graph& graph, ValueId id) {
  const Root root = root_of(graph, id);
  const Value& base = graph.value(root.value);
  Touch touch{base.buffer, root.value, 0, 0};
  if (base.buffer >= 0) {
    touch.begin = base.buffer_offset * tensor::size_of(base.dtype) + root.offset;
    touch.end = touch.begin + reach_of(mesh, graph, id);
  }
  return touch;
}

Touches touches_of(const Mesh& mesh, const Graph& graph, const Node& node) {
  Touches touches;
  for (const ValueId id : node.inputs) touches.reads.push_back(touch_of(mesh, graph, id));
  for (const ValueId id : node.outputs) touches.writes.push_back(touch_of(mesh, graph, id));
  return touches;
}

bool any_overlap(const std::vector<Touch>& a, const std::vector<Touch>& b) {
  return std::ranges::any_of(a, [&](const Touch& x) {
    return std::ranges::any_of(b, [&](const Touch& y) { return x.overlaps(y); });
  });
}

bool conflict(const Touches& a, const Touches& b) {
  return any_overlap(a.writes, b.writes) || any_overlap(a.writes, b.reads) || any_overlap(a.reads, b.writes);
}

struct Outstanding {
  int id = 0;
  Stream stream = Stream::kDp;
  When when = When::kAlways;
  bool persistent =
      false;  // touches persistent buffers only, in the last micro-batch: may outlive its segment
  Touches touches;
};

class WaitPlanning {
 public:
  explicit WaitPlanning(Draft& draft) : draft_(draft) {
    for (const Segment& segment : draft.segments) {
      const Graph& graph = draft.chunks[static_cast<size_t>(segment.chunk)];
      beside_.push_back(std::ranges::any_of(segment.instructions, [&](const Instruction& instruction) {
        const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
        return is_asynchronous(node) && node.when != When::kLast;
      }));
    }
  }

  void run() {
    // In the order of last invocations, begin first, finish last: what one leaves running, those after it
    // wait for.
    if (draft_.begin_segment >= 0)
      plan_segment(draft_.segments[static_cast<size_t>(draft_.begin_segment)], true);
    for (size_t position = 0; position < draft_.timeline.size(); ++position) {
      const Invocation& invocation = draft_.timeline[position];
      if (!invocation.last) continue;
      const bool ends = invocation.segment == draft_.finish_segment || !followed_by_last_ones(position);
      plan_segment(draft_.segments[static_cast<size_t>(invocation.segment)], ends);
    }
  }

 private:
  // Whatever runs behind a position and beside others is of a last invocation, and so planned behind it.
  bool followed_by_last_ones(size_t position) const {
    return std::all_of(draft_.timeline.begin() + static_cast<std::ptrdiff_t>(position) + 1,
                       draft_.timeline.end(), [&](const Invocation& invocation) {
                         return invocation.last || !beside_[static_cast<size_t>(invocation.segment)];
                       });
  }

  void plan_segment(Segment& segment, bool join_all) {
    const Graph& graph = draft_.chunks[static_cast<size_t>(segment.chunk)];
    for (Instruction& instruction : segment.instructions) {
      const Node& node = graph.nodes[static_cast<size_t>(instruction.node)];
      if (running_.empty() && !is_asynchronous(node)) continue;
      Touches touches = touches_of(draft_.options.layout.mesh, graph, node);
      plan_instruction(instruction, node, touches);
      if (!is_asynchronous(node)) continue;
      Outstanding started{instruction.id, node.stream, node.when, false, std::move(touches)};
      started.persistent = node.when == When::kLast && only_persistent(started.touches);
      running_.push_back(std::move(started));
    }
    join(segment, join_all);
  }

  static bool only_persistent(const Touches& touches) {
    const auto persistent = [](const Touch& touch) { return touch.buffer >= 0; };
    return std::ranges::all_of(touches.reads, persistent) && std::ranges::all_of(touches.writes, persistent);
  }

  void plan_instruction(Instruction& instruction, const Node& node, const Touches& touches) {
    std::array<int, kStreams> last_wait;  // per stream: index in running_ up to which all is awaited
    last_wait.fill(-1);
    size_t on_stream = 0;
    for (const Outstanding& other : running_) on_stream += other.stream == node.stream ? 1 : 0;
    size_t passed = 0;
    for (size_t i = 0; i < running_.size(); ++i) {
      const Outstanding& other = running_[i];
      const bool same = is_asynchronous(node) && other.stream == node.stream;
      const bool window = same && on_stream - passed++ >= kWindow;
      // On one stream order is kept anyway; but messages set off when they are posted.
      const bool ordered = same && node.op != Op::kRingShift;
      if (window || (!ordered && conflict(other.touches, touches)))
        last_wait[static_cast<size_t>(other.stream)] = static_cast<int>(i);
    }
    // A stream works in order: waiting for one is waiting for all before it, if it runs in this micro-batch.
    for (size_t stream = 0; stream < kStreams; ++stream)
      for (int i = last_wait[stream]; i >= 0; --i) {
        const Outstanding& other = running_[static_cast<size_t>(i)];
        if (static_cast<size_t>(other.stream) != stream) continue;
        instruction.waits.push_back(other.id);
        if (runs_whenever(other.when, node.when)) break;
      }
    // What is awaited is done in all micro-batches only where this instruction runs in all that it runs in.
    size_t index = 0;
    std::erase_if(running_, [&](const Outstanding& other) {
      const bool awaited = static_cast<int>(index++) <= last_wait[static_cast<size_t>(other.stream)];
      return awaited && runs_whenever(node.when, other.when);
    });
    std::ranges::sort(instruction.waits);
  }

  void join(Segment& segment, bool all) {
    std::deque<Outstanding> carried;
    for (auto at = running_.begin(); at != running_.end(); ++at) {
      Outstanding& other = *at;
      const bool later_joined = std::any_of(at + 1, running_.end(), [&](const Outstanding& next) {
        return next.stream == other.stream && (all || !next.persistent) &&
               runs_whenever(next.when, other.when);
      });
      if (!all && other.persistent && !later_joined) {
        carried.push_back(std::move(other));
      } else if (!later_joined) {
        segment.joins.push_back(other.id);
      }
    }
    running_ = std::move(carried);
  }

  Draft& draft_;
  std::vector<bool> beside_;  // per segment: it issues asynchronous instructions in every micro-batch
  std::deque<Outstanding> running_;
};

}  // namespace

void plan_waits(Draft& draft) { WaitPlanning(draft).run(); }

}  // namespace ingot::graph
