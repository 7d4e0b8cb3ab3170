#include "train/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace ingot::train {
namespace {

// A signal handler can reach only globals; they are written by the handlers, and by the guard's owner.
volatile std::sig_atomic_t stops_seen = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t save_asked = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void on_signal(int signal) {
  if (signal == SIGUSR2) {
    save_asked = 1;
    return;
  }
  if (stops_seen > 0 && signal != SIGUSR1) {
    // The second: the user does not want to wait for the save.
    std::signal(signal, SIG_DFL);
    (void)::raise(signal);
    return;
  }
  stops_seen = 1;
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) (void)::sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  stops_seen = 0;
  save_asked = 0;
  install(on_signal);
}

InterruptGuard::~InterruptGuard() { install(SIG_DFL); }

bool InterruptGuard::requested() const { return stops_seen > 0; }

bool InterruptGuard::take_save_request() {
  const bool asked = save_asked != 0;
  save_asked = 0;
  return asked;
}

}  // namespace ingot::train
