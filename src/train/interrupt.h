#pragma once
// SIGINT and SIGTERM: the first asks for a clean stop after the running step, a second one stops at once.

namespace ingot::train {

// Installs the handlers for its lifetime; one at a time in a process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  bool requested() const;  // a signal has come
};

}  // namespace ingot::train
