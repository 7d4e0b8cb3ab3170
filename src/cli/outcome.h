#pragma once
// Exit codes and how an error is said.

#include "base/result.h"
#include "cli/console.h"

namespace ingot::cli {

enum ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2, kInterruptedSaved = 3, kDeviceFault = 4 };

inline int exit_code(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kNotFound:
      return kUsage;
    case ErrorCode::kFault:
      return kDeviceFault;
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kUnavailable:
      return kFailed;
  }
  return kFailed;
}

// Prints the error and returns its exit code.
inline int fail(Console& console, const Error& error) {
  console.error(error.message);
  return exit_code(error);
}

}  // namespace ingot::cli
