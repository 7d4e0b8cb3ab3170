#pragma once
// Signals as requests. SIGINT, SIGTERM and SIGUSR1 ask for a clean stop after the running step; a second one
// of the first two stops at once. SIGUSR2 asks for a checkpoint, and training goes on.

namespace ingot::train {

// Installs the handlers for its lifetime; one at a time in a process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  bool requested() const;    // a clean stop
  bool take_save_request();  // true once for one or more requests
};

}  // namespace ingot::train
