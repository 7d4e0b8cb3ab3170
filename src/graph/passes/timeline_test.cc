// Schedules as theory says: the timelines and transfers of all stages run against each other, with messages
// that begin when both sides have posted them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.h"
#include "graph/passes/draft.h"

namespace ingot::graph {
namespace {

size_t at(int index) { return static_cast<size_t>(index); }

// The graph of one chunk with a node of work in each phase, and what crosses its boundaries.
Graph chunk_graph(int chunk, int chunks, bool trains, bool weights) {
  Graph graph;
  const auto value = [&](const char* name) {
    Value made;
    made.name = name;
    return graph.add_value(std::move(made));
  };
  const auto receive = [&](const char* name, Phase phase, int peer, int tag) {
    Node node{.op = Op::kReceive, .phase = phase, .outputs = {value(name)}};
    node.attributes.peer = peer, node.attributes.tag = tag;
    graph.nodes.push_back(node);
    return node.outputs[0];
  };
  const auto send = [&](ValueId what, Phase phase, int peer, int tag) {
    Node node{.op = Op::kSend, .phase = phase, .inputs = {what}};
    node.attributes.peer = peer, node.attributes.tag = tag;
    graph.nodes.push_back(node);
  };
  const auto work = [&](const char* name, Phase phase) {
    graph.nodes.push_back({.op = Op::kAdd, .phase = phase, .outputs = {value(name)}});
    return graph.nodes.back().outputs[0];
  };
  const bool first = chunk == 0, last = chunk + 1 == chunks;
  if (!first) receive("x", Phase::kForward, -1, chunk - 1);
  const ValueId y = work("y", Phase::kForward);
  if (!last) send(y, Phase::kForward, 1, chunk);
  if (!trains) return graph;
  if (!last) receive("dy", Phase::kBackward, 1, chunk);
  const ValueId dx = work("dx", Phase::kBackward);
  if (!first) send(dx, Phase::kBackward, -1, chunk - 1);
  if (weights) work("dw", Phase::kWeight);
  return graph;
}

std::vector<Draft> scheduled(const Layout& layout, Purpose purpose = Purpose::kTrain) {
  std::vector<Draft> stages;
  const int p = layout.mesh.size(Axis::kPp), v = layout.virtual_stages;
  for (int stage = 0; stage < p; ++stage) {
    Draft draft;
    draft.options.layout = layout;
    draft.options.purpose = purpose;
    draft.stage = stage;
    const auto checked = check_schedule(draft.options, stage);
    INGOT_CHECK(checked.has_value(), "{}", checked.error().message);
    for (int c = 0; c < v; ++c)
      draft.chunks.push_back(
          chunk_graph(c * p + stage, p * v, purpose == Purpose::kTrain, has_weight_phase(layout.schedule)));
    draft.finish = v;
    draft.chunks.emplace_back();
    make_schedule(draft);
    stages.push_back(std::move(draft));
  }
  return stages;
}

struct Durations {
  double forward = 0, backward = 0, weight = 0;  // of one chunk
  double of(Phase phase) const {
    return phase == Phase::kForward ? forward : phase == Phase::kBackward ? backward : weight;
  }
};

// Runs the stages as far as they come. A message takes no time, but begins only when both sides have posted
// it.
class Simulation {
 public:
  Simulation(const std::vector<Draft>& stages, const Durations& durations)
      : stages_(stages), durations_(durations), runs_(stages.size()) {}

  // When the last stage is done; -1 when all wait for each other.
  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < stages_.size(); ++s)
        while (step(static_cast<int>(s))) moved = true;
    }
    double end = 0;
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (runs_[s].position <= stages_[s].timeline.size()) return -1;
      end = std::max(end, runs_[s].time);
    }
    return end;
  }

 private:
  struct Run {
    size_t position = 0;
    bool posted = false;
    double time = 0;
  };
  using Message = std::tuple<int, int, int, int>;  // from, to, tag, micro-batch

  Message message_of(int stage, const Transfer& transfer) const {
    const int count = static_cast<int>(stages_.size());
    const int other = (stage + transfer.peer + count) % count;
    return transfer.send ? Message{stage, other, transfer.tag, transfer.micro_batch}
                         : Message{other, stage, transfer.tag, transfer.micro_batch};
  }

  bool step(int stage) {
    Run& run = runs_[at(stage)];
    const Draft& draft = stages_[at(stage)];
    if (run.position > draft.timeline.size()) return false;
    if (!run.posted) {
      for (const Transfer& transfer : draft.transfers)
        if (transfer.post == static_cast<int>(run.position))
          (transfer.send ? sent_ : received_)[message_of(stage, transfer)] = run.time;
      run.posted = true;
    }
    double time = run.time;
    for (const Transfer& transfer : draft.transfers) {
      if (transfer.wait != static_cast<int>(run.position)) continue;
      const Message message = message_of(stage, transfer);
      const auto sent = sent_.find(message), received = received_.find(message);
      if (sent == sent_.end() || received == received_.end()) return false;
      time = std::max({time, sent->second, received->second});
    }
    if (run.position < draft.timeline.size())
      time += durations_.of(draft.segments[at(draft.timeline[run.position].segment)].phase);
    run = {run.position + 1, false, time};
    return true;
  }

  const std::vector<Draft>& stages_;
  const Durations durations_;
  std::vector<Run> runs_;
  std::map<Message, double> sent_, received_;
};

Layout layout_of(const char* schedule, int stages, int micro_batches, int virtual_stages = 1) {
  Layout layout;
  layout.mesh.sizes[static_cast<size_t>(Axis::kPp)] = stages;
  layout.schedule = schedule;
  layout.micro_batches = micro_batches;
  layout.virtual_stages = virtual_stages;
  return layout;
}

// Time beyond what a stage works.
double bubble(const Layout& layout, const Durations& durations) {
  const double end = Simulation(scheduled(layout), durations).run();
  EXPECT_GE(end, 0) << layout.schedule << " waits for itself: pp " << layout.mesh.size(Axis::kPp) << " v "
                    << layout.virtual_stages << " m " << layout.micro_batches;
  const double work = durations.forward + durations.backward + durations.weight;
  return end - layout.micro_batches * layout.virtual_stages * work;
}

TEST(Timeline, OneForwardOneBackward) {
  const auto f = [](int mb) { return Work{Phase::kForward, 0, mb}; };
  const auto b = [](int mb) { return Work{Phase::kBackward, 0, mb}; };
  EXPECT_EQ(timeline("1f1b", {1, 1, 2, 0}), (std::vector<Work>{f(0), b(0), f(1), b(1)}));
  EXPECT_EQ(timeline("1f1b", {4, 1, 3, 0}), (std::vector<Work>{f(0), f(1), f(2), b(0), b(1), b(2)}));
  EXPECT_EQ(timeline("1f1b", {4, 1, 3, 2}), (std::vector<Work>{f(0), f(1), b(0), f(2), b(1), b(2)}));
  EXPECT_EQ(timeline("gpipe", {4, 1, 2, 3}), (std::vector<Work>{f(0), f(1), b(0), b(1)}));
  EXPECT_EQ(forward_timeline({4, 1, 2, 3}), (std::vector<Work>{f(0), f(1)}));
}

TEST(Timeline, InterleavedChangesChunksAfterEveryRoundOfStages) {
  const auto f = [](int chunk, int mb) { return Work{Phase::kForward, chunk, mb}; };
  const auto b = [](int chunk, int mb) { return Work{Phase::kBackward, chunk, mb}; };
  // The last of two stages runs ahead by its first chunk.
  EXPECT_EQ(timeline("interleaved", {2, 2, 2, 1}),
            (std::vector<Work>{f(0, 0), f(0, 1), f(1, 0), b(1, 0), f(1, 1), b(1, 1), b(0, 0), b(0, 1)}));
  EXPECT_EQ(forward_timeline({2, 2, 3, 0}),
            (std::vector<Work>{f(0, 0), f(0, 1), f(1, 0), f(1, 1), f(0, 2), f(1, 2)}));
}

TEST(Timeline, EveryStageOfZeroBubbleHoldsAsManyMicroBatches) {
  for (int stage = 0; stage < 4; ++stage) {
    int held = 0, most = 0;
    for (const Work& work : timeline("zb-h1", {4, 1, 8, stage})) {
      held += work.phase == Phase::kForward ? 1 : work.phase == Phase::kWeight ? -1 : 0;
      most = std::max(most, held);
    }
    EXPECT_EQ(most, 4) << stage;
    EXPECT_EQ(held, 0);
  }
}

TEST(Timeline, BubbleOfOneForwardOneBackward) {
  const Durations durations{1, 2, 0};
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 16; ++m) {
      // (p - 1) / (m + p - 1) of the step.
      const double own = bubble(layout_of("1f1b", p, m), durations);
      EXPECT_NEAR(own / (own + m * 3.0), (p - 1.0) / (m + p - 1.0), 1e-12) << p << " " << m;
      EXPECT_NEAR(bubble(layout_of("gpipe", p, m), durations), own, 1e-12) << p << " " << m;
    }
}

TEST(Timeline, BubbleOfInterleavedIsDividedByTheChunks) {
  const Durations durations{1, 2, 0};
  for (int p = 2; p <= 8; ++p)
    for (int v = 2; v <= 4; ++v)
      for (int m = p; m <= 16; m += p)
        EXPECT_NEAR(bubble(layout_of("interleaved", p, m, v), durations) / (3.0 * m * v), (p - 1.0) / (v * m),
                    1e-12)
            << p << " " << v << " " << m;
}

// From as many micro-batches as stages on, while weight gradients take no longer than forward or backward.
TEST(Timeline, BubbleOfZeroBubble) {
  for (const Durations& t : {Durations{1, 1, 1}, Durations{2, 2, 1}, Durations{2, 3, 1}, Durations{3, 3, 2}})
    for (int p = 1; p <= 8; ++p)
      for (int m = 1; m <= 16; ++m) {
        const double own = bubble(layout_of("zb-h1", p, m), t);
        if (m < p) continue;
        EXPECT_NEAR(own, (p - 1) * (t.forward + t.backward - t.weight), 1e-12) << p << " " << m;
      }
}

TEST(Timeline, ForwardsAloneFollowEachOther) {
  for (int p = 1; p <= 8; ++p)
    for (int v = 1; v <= (p > 1 ? 4 : 1); ++v)
      for (int m = 1; m <= 16; ++m) {
        const Layout layout = layout_of(v > 1 ? "interleaved" : "1f1b", p, m, v);
        const double end = Simulation(scheduled(layout, Purpose::kEvaluate), {1, 0, 0}).run();
        ASSERT_GE(end, 0) << p << " " << v << " " << m;
        if (m % p == 0) {
          EXPECT_NEAR(end, m * v + p - 1, 1e-12) << p << " " << v << " " << m;
        }
      }
}

// What the positions buy: a receive that is posted where it is read, and one slot for what goes out, make the
// interleaved schedule wait for itself.
TEST(Timeline, ReceivesPostedLateAndOneSlotDeadlock) {
  int dead = 0;
  for (int p = 2; p <= 8; ++p) {
    std::vector<Draft> stages = scheduled(layout_of("interleaved", p, 2 * p, 2));
    for (Draft& draft : stages)
      for (Transfer& transfer : draft.transfers) {
        if (!transfer.send) transfer.post = transfer.wait;
        if (transfer.send) transfer.wait = transfer.post;
      }
    dead += Simulation(stages, {1, 2, 0}).run() < 0 ? 1 : 0;
  }
  EXPECT_GT(dead, 0);
}

TEST(Timeline, RefusesWithASentence) {
  const auto message = [](const Layout& layout, int stage = 0, Purpose purpose = Purpose::kTrain) {
    CompileOptions options;
    options.layout = layout;
    options.purpose = purpose;
    const auto checked = check_schedule(options, stage);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(message(layout_of("1f2b", 1, 1)),
            "parallel.pp_schedule \"1f2b\" is unknown; known are 1f1b, interleaved, zb-h1, gpipe");
  EXPECT_EQ(message(layout_of("1f1b", 2, 4, 2)), "parallel.virtual_stages is 2; schedule \"1f1b\" takes 1");
  EXPECT_EQ(message(layout_of("interleaved", 2, 4)),
            "parallel.virtual_stages is 1; schedule \"interleaved\" takes 2 to 64");
  EXPECT_EQ(message(layout_of("interleaved", 1, 4, 2)),
            "parallel.virtual_stages is 2, but parallel.pp is 1: there is no other stage");
  EXPECT_EQ(message(layout_of("interleaved", 4, 10, 2)),
            "schedule \"interleaved\" needs a multiple of parallel.pp, 4, as number of micro-batches; 10 are "
            "asked for, use 8 or 12");
  EXPECT_EQ(message(layout_of("interleaved", 4, 10, 2), 0, Purpose::kEvaluate), "");
  EXPECT_EQ(message(layout_of("1f1b", 2, 4), 2), "there is no stage 2: parallel.pp is 2");
  EXPECT_EQ(message(layout_of("1f1b", 1, 0)), "a step of 0 micro-batches has no work");
}

}  // namespace
}  // namespace ingot::graph
