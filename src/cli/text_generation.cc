#include "cli/text_generation.h"

#include <algorithm>

#include "base/counted.h"

namespace ingot::cli {
namespace {

// How many of the bytes form whole UTF-8 characters; bytes that cannot begin one count as whole.
size_t whole_characters(std::string_view text) {
  size_t end = text.size();
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const size_t need = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    if (need > back) end = text.size() - back;
    break;
  }
  return end;
}

Result<std::vector<int32_t>> first_tokens(const data::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> ids;
  if (!prompt.empty()) {
    INGOT_TRY_VOID(tokenizer.encoder()->encode(prompt, ids));
  } else if (const auto end = tokenizer.end_of_text()) {
    ids.push_back(*end);  // a document begins after the end of another
  } else {
    // A tokenizer without that token: a line end if it has one, else its first token.
    if (!tokenizer.encoder()->encode("\n", ids)) ids = {0};
  }
  return ids;
}

}  // namespace

std::string_view name_of(TextEnd end) {
  switch (end) {
    case TextEnd::kTokens:
      return "tokens";
    case TextEnd::kEndOfText:
      return "end_of_text";
    case TextEnd::kWindow:
      return "window";
  }
  return "";
}

Result<GeneratedText> generate_text(const RunFolder& run, const GenerateRequest& request,
                                    const std::function<void(std::string_view)>& on_text) {
  INGOT_TRY(const std::unique_ptr<train::Decoder> decoder, open_decoder(run, request.threads));
  const data::Tokenizer& tokenizer = *run.tokenizer;
  INGOT_TRY(std::vector<int32_t> next, first_tokens(tokenizer, request.prompt));
  GeneratedText made;
  made.text = request.prompt;
  made.prompt_tokens = static_cast<int64_t>(next.size());
  made.window = decoder->cache();
  if (made.prompt_tokens > made.window)
    return invalid(fmt::format("the prompt has {}, and this model looks at {} at most. Give a shorter one",
                               counted(made.prompt_tokens, "token"), format_integer(made.window)));
  train::TokenSampler sampler(request.sampling, run.loaded.spec.model.vocab_size);
  size_t shown = 0;
  const auto show = [&](size_t end) {
    if (on_text && end > shown) on_text(std::string_view(made.text).substr(shown, end - shown));
    shown = std::max(shown, end);
  };
  show(made.text.size());
  while (made.end == TextEnd::kTokens && made.added_tokens < request.tokens) {
    INGOT_TRY(const std::span<const float> logits, decoder->feed(next));
    const int32_t id = sampler.choose(logits, request.sequence, decoder->position());
    if (tokenizer.end_of_text() == id) {
      made.end = TextEnd::kEndOfText;
      break;
    }
    next = {id};
    ++made.added_tokens;
    made.text += tokenizer.decode(next);
    show(whole_characters(made.text));
    if (decoder->position() == decoder->cache() && made.added_tokens < request.tokens)
      made.end = TextEnd::kWindow;
  }
  show(made.text.size());
  return made;
}

std::string one_paragraph(const std::string& text) {
  constexpr size_t kLine = 80, kLines = 4;
  std::string words, line;
  size_t lines = 1;
  std::string word;
  const auto flush = [&] {
    if (word.empty()) return;
    if (!line.empty() && line.size() + 1 + word.size() > kLine) {
      words += line + "\n";
      line.clear();
      ++lines;
    }
    line += (line.empty() ? "" : " ") + word;
    word.clear();
  };
  for (const char c : text) {
    if (lines > kLines) break;
    if (static_cast<unsigned char>(c) <= ' ') {
      flush();
    } else {
      word += c;
    }
  }
  flush();
  if (lines <= kLines) words += line;
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return "“" + words + " …”";
}

}  // namespace ingot::cli
