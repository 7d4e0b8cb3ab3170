#pragma once
// Messages between pipeline stages: posted and waited for between the invocations of the timeline. Internal
// to runtime.

#include "runtime/bound.h"

namespace ingot::runtime {

class Transfers {
 public:
  // `bound` in the order of program.transfers; borrowed, as the next. `observer` is called after each wait.
  Transfers(const graph::Program& program, std::vector<BoundTransfer>& bound, const ExecutorOptions& options,
            Observer observer);

  void begin_timeline() { posted_ = awaited_ = 0; }
  // What the plan has before the invocation at `position` (the timeline's length: the end): posts, then
  // waits; poisons the slots that are free then. Every position once, in order. The error names the transfer.
  Result<void> run(int position);
  // Per entry of the timeline and slot class: nobody reads the slot after it.
  std::vector<std::array<bool, graph::kSlotClasses>> freed_slots() const;
  int64_t waited_ns() const { return waited_ns_; }  // since it was made

 private:
  Result<void> post(BoundTransfer& transfer);
  Result<void> wait(BoundTransfer& transfer);
  comm::CallOptions call_of(const BoundTransfer& transfer) const;
  bool holds(const graph::Transfer& transfer, const graph::Invocation& invocation) const;

  const graph::Program& program_;
  std::vector<BoundTransfer>& bound_;
  const ExecutorOptions& options_;
  const Observer observer_;
  std::vector<size_t> by_wait_;
  size_t posted_ = 0, awaited_ = 0;
  int64_t waited_ns_ = 0;
};

}  // namespace ingot::runtime
