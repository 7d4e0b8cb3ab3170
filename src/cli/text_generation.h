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

enum class TextEnd : uint8_t { kTokens, kEndOfText, kWindow };  // as many as asked; its own; no more room
std::string_view name_of(TextEnd end);                          // "tokens", "end_of_text", "window"

struct GeneratedText {
  std::string text;  // the prompt and what follows it
  int64_t prompt_tokens = 0, added_tokens = 0, window = 0;
  TextEnd end = TextEnd::kTokens;
};

// `on_text` (may be empty) gets whole pieces as they come. Errors: a prompt that leaves no room in the
// model's window for a token more.
Result<GeneratedText> generate_text(const RunFolder& run, const GenerateRequest& request,
                                    const std::function<void(std::string_view)>& on_text = {});

// For a line on the console: in quotes, spaces and line ends as single spaces, cut at a width.
std::string one_paragraph(const std::string& text);

}  // namespace ingot::cli
