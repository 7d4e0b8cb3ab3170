#pragma once
// Whether a file or folder can be written, found out before long work rather than after it.

#include <string>

#include "base/result.h"

namespace ingot::cli {

// Tries the nearest folder of `path` that exists and leaves nothing behind. `said` is how the user gave the
// path
// ("--out", "run.dir"). Errors: kInvalid with the folder and the reason of the system.
Result<void> check_writable(const std::string& path, const std::string& said);

}  // namespace ingot::cli
