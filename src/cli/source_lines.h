#pragma once
// The text that a run is to be trained on, looked at before anything is read in whole.

#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::cli {

struct SourceLine {
  std::string name;  // "book.txt", or of the first of several
  std::string text;  // "5.4 MiB of text, one document, 12,911 lines"
};

// Errors: every path that is not there, is empty or gives nothing, all at once.
Result<SourceLine> describe_sources(const std::vector<std::string>& paths);

}  // namespace ingot::cli
