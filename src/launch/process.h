#pragma once
// One process that an agent started: in a process group of its own, so that a terminal's signals reach the
// agent alone; killed by the system when the agent dies; watched through a descriptor, so that its number
// can never mean another process.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file_seam.h"
#include "base/result.h"
#include "launch/binding.h"

namespace ingot::launch {

struct Ending {
  int code = 0;    // exit code, where no signal ended it
  int signal = 0;  // 0: it ended by itself
  bool in_order() const { return signal == 0 && (code == 0 || code == 3); }
};
std::string describe(const Ending& ending);  // "was ended by signal 9 (Killed)", "ended with exit code 1"

struct Command {
  std::vector<std::string> words;             // of which the first is the program's path
  std::vector<std::string> environment = {};  // "NAME=value", over this process's own
  std::string output = {};   // file to which both outputs are appended; empty: this process's own
  Cpus cpus = {};            // to be bound to; empty: as this process
  int kept_descriptor = -1;  // that the program inherits
};

class Process {
 public:
  // Errors: the system refuses. A program that cannot be executed ends with exit code 127.
  static Result<Process> start(const Command& command);
  // The calling process as a child of itself: true in the child, which goes on with what the caller does
  // next; in the parent `child` is set. To be called while there is one thread. Bound to `cpus` where not
  // empty.
  static Result<bool> fork_self(const Cpus& cpus, std::optional<Process>* child);

  pid_t pid() const { return pid_; }
  int descriptor() const { return descriptor_.get(); }  // readable once it has ended
  std::optional<Ending> ended();                        // takes it; never blocks
  void signal(int number) const;                        // nothing once it has ended
  char state() const;  // as the system writes it ('R', 'S', 'T', 'Z'), 0 when it is gone

 private:
  Process(pid_t pid, Descriptor descriptor) : pid_(pid), descriptor_(std::move(descriptor)) {}
  static Result<Process> adopt(pid_t pid);
  pid_t pid_ = 0;
  Descriptor descriptor_;
  std::optional<Ending> ending_;
};

}  // namespace ingot::launch
