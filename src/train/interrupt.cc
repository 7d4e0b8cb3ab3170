#include "train/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace ingot::train {
namespace {

// A signal handler can reach only a global; it is written by the handler alone.
volatile std::sig_atomic_t signals_seen = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void on_signal(int signal) {
  if (signals_seen > 0) {
    // The second: the user does not want to wait for the save.
    std::signal(signal, SIG_DFL);
    (void)::raise(signal);
    return;
  }
  signals_seen = signals_seen + 1;
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  (void)::sigaction(SIGINT, &action, nullptr);
  (void)::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  signals_seen = 0;
  install(on_signal);
}

InterruptGuard::~InterruptGuard() { install(SIG_DFL); }

bool InterruptGuard::requested() const { return signals_seen > 0; }

}  // namespace ingot::train
