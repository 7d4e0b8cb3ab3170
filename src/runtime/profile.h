#pragma once
// Where the time of a step goes: a Profiler watches the instructions of some steps on one rank and adds them
// up by kind. Thread-seconds add up: busy in kernels, idle inside instructions (waiting for other threads,
// collectives, serial parts), waiting for data, and what is left between instructions. The same rows are laid
// beside a prediction. Also writes the steps as a trace for chrome://tracing or ui.perfetto.dev.

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/runtime.h"

namespace ingot::runtime {

// Instructions of one operation (recomputed ones apart: "norm, recomputed"), over the profiled steps.
struct KindTime {
  std::string kind;
  bool beside_compute = false;  // ran on a stream of its own: its seconds are no part of the wall time
  int64_t calls = 0;
  double seconds = 0;       // from issue to end, on the issuing thread
  double busy_seconds = 0;  // of all threads, inside kernels
  double flops = 0, bytes = 0, sent_bytes = 0;
};

struct Attribution {
  std::vector<KindTime> kinds;  // by falling time
  int steps = 0, threads = 1;
  double wall_seconds = 0;
  double data_wait_seconds = 0;

  double instruction_seconds() const;  // of the kinds that are part of the wall time
  double busy_seconds() const;         // thread-seconds, as the next two
  double idle_seconds() const;
  // Neither instructions nor waiting for data: the executor itself and what surrounds it.
  double other_seconds() const;
};

// Sums of one instruction's kind: the one place that says what is one kind.
std::string kind_of(const graph::Node& node);

class Profiler {
 public:
  // Borrows both for its life. Keeps at most `max_events` instructions; a step that does not fit whole is not
  // counted.
  Profiler(const graph::Program& program, const ThreadPool& pool, size_t max_events);

  // For Executor::set_observer. Allocates nothing when called; may be called by stream threads too.
  Observer observer();
  // After each step: its wall time, of which so much waiting for data. False when no further step fits.
  bool end_step(double wall_seconds, double data_wait_seconds);

  int steps() const { return static_cast<int>(steps_.size()); }
  Attribution attribution() const;
  // A JSON object in the Trace Event Format: one row of events per stream of this rank, instruction ids as in
  // every other report.
  std::string trace_json(int rank) const;

 private:
  struct Event {
    const graph::Instruction* instruction = nullptr;
    int segment = 0, micro_batch = 0;
    int64_t begin_ns = 0, end_ns = 0;
    int64_t busy_ns = 0;  // of all threads of the pool since its beginning, when the instruction ended
  };
  struct Step {
    size_t begin = 0, end = 0;  // of events_
    double wall_seconds = 0, data_wait_seconds = 0;
    int64_t busy_before_ns = 0;
  };
  int64_t busy_ns() const;
  const graph::Node& node_of(const Event& event) const;
  size_t recorded() const;

  const graph::Program& program_;
  const ThreadPool& pool_;
  std::vector<Event> events_;
  std::atomic<size_t> next_{0};
  std::vector<Step> steps_;
  size_t step_begin_ = 0;
  int64_t step_busy_ns_ = 0;
};

}  // namespace ingot::runtime
