#pragma once
// Text from a trained run: used by `ingot generate` and by the sample that ends a training.

#include <functional>
#include <string>

#include "cli/run_folder.h"
#include "train/sampling.h"

namespace ingot::cli {

struct GenerateRequest {
  std::string prompt;
  int64_t tokens = 100;  // at most; an end-of-text token ends it
  int64_t sequence = 0;  // numbers the draw: another one is another text
  train::SamplingOptions sampling;
  int threads = 0;
};

// The prompt and what follows it. `on_text` (may be empty) gets whole pieces as they come.
Result<std::string> generate_text(const RunFolder& run, const GenerateRequest& request,
                                  const std::function<void(std::string_view)>& on_text = {});

// For a line on the console: in quotes, spaces and line ends as single spaces, cut at a width.
std::string one_paragraph(const std::string& text);

}  // namespace ingot::cli
