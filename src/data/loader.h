#pragma once
// One thread that fills the next step's micro-batches while the step reads the present ones: two buffers,
// planned by the program as its input space. It runs at lower priority and sleeps when both are full. State
// is the step number alone, so a resumed run starts it at any step and reads the same samples.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/event.h"
#include "base/result.h"
#include "data/batch.h"

namespace ingot::data {

struct LoaderOptions {
  StepLayout layout;
  Slice slice;
  int64_t replica = 0;
  int64_t first_step = 0;
  int64_t end_step = -1;  // one past the last; -1: no end
  bool document_mask = false;
  OnCorrupt on_corrupt = OnCorrupt::kFail;
  EventLog* events = nullptr;  // "data_substituted" per substitution; may be null, must outlive the loader
};

// The micro-batches of one step: layout.micro_batches(replica) views.
using StepBuffer = std::vector<BatchView>;

struct LoadedStep {
  int buffer = 0;        // 0 or 1
  int64_t stall_ns = 0;  // that acquire() waited
};

class Loader {
 public:
  // `stream` and the memory of both buffers must outlive the loader. Step s is filled into buffer
  // (s - first_step) % 2. Fails when the layout or the buffers do not fit.
  static Result<std::unique_ptr<Loader>> start(const TokenStream& stream, Sampler order,
                                               const LoaderOptions& options, StepBuffer first,
                                               StepBuffer second);
  ~Loader();  // stops the thread
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Waits until step `step` is filled. Steps come in order, each released before the next but one is
  // acquired. kUnavailable after `timeout_s`, saying what the thread was at; kCorrupt and others as the
  // thread met them. Allocates nothing when it succeeds.
  Result<LoadedStep> acquire(int64_t step, double timeout_s);
  void release(int64_t step);

  int64_t substituted_samples() const;  // since start
  int64_t stall_ns() const;             // total of acquire()

 private:
  Loader();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::data
