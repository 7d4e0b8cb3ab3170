#pragma once
// Runs the ingot binary as a user does: arguments in, exit status and both outputs out.

#include <functional>
#include <string>
#include <vector>

#include "base/test_folder.h"

namespace ingot::testing {

struct Finished {
  int exit_code = -1;  // 128 + signal where one ended it
  std::string out, err;
  double seconds = 0;
};

struct RunOptions {
  std::string folder = {};                    // working folder
  std::vector<std::string> environment = {};  // "NAME=value", added
  int kill_after_ms = -1;                     // SIGKILL then, -1: never
  int signal = 9;                             // or this one
  std::string output = {};                    // a file that takes standard output; empty: Finished::out
  std::vector<std::string> before = {};       // words before the binary, as mpirun's
  std::function<void(int pid)> beside = {};   // runs meanwhile in a thread of its own, and is waited for
};

Finished run_ingot(const std::vector<std::string>& arguments, const RunOptions& options = {});

// Made-up but learnable English-like text of about `bytes`, always the same.
std::string made_up_text(size_t bytes);

}  // namespace ingot::testing
