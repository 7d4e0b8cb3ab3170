#include "data/tokenizer/tokenizer.h"

#include <sys/stat.h>

#include "base/file.h"
#include "data/tokenizer/pattern.h"

namespace ingot::data {
namespace {

bool is_directory(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string_view file_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "dir/cl100k_base.tiktoken" holds cl100k's pattern.
Result<std::string> pattern_of_file(const std::string& path) {
  std::string_view stem = file_name(path);
  stem = stem.substr(0, stem.find('.'));
  if (pattern_by_name(stem)) return std::string(stem);
  return invalid(fmt::format(
      "{}: a .tiktoken file does not say how text is cut before merging, and the name '{}' is not "
      "one that is known (gpt2, r50k_base, p50k_base, cl100k_base, o200k_base); name the pattern",
      path, stem));
}

Result<std::unique_ptr<Tokenizer>> load_file(const std::string& path, const LoadOptions& options) {
  const std::string_view name = file_name(path);
  if (name.ends_with(".tiktoken")) {
    std::string pattern = options.pattern;
    if (pattern.empty()) {
      INGOT_TRY(pattern, pattern_of_file(path));
    }
    INGOT_TRY(const std::string bytes, read_file(path));
    return parse_tiktoken(bytes, pattern, path);
  }
  INGOT_TRY(const std::string bytes, read_file(path));
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || bytes[first] != '{') {
    return invalid(fmt::format(
        "{}: neither a .tiktoken file (by its name) nor a tokenizer.json (by its content)", path));
  }
  return parse_hugging_face_json(bytes, path);
}

}  // namespace

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += token_bytes(id);
  return text;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path_or_name,
                                                  const LoadOptions& options) {
  if (path_or_name == "bytes") return byte_tokenizer();
  const bool there = path_exists(path_or_name);
  if (!there && (path_or_name == "chars" || path_or_name == "characters")) {
    return invalid(
        "the tokenizer 'chars' is built from a corpus and cannot be loaded by name; name the tokenizer.json "
        "that was written with the data set");
  }
  if (!there) {
    return not_found(
        fmt::format("there is no tokenizer '{}': it is neither 'bytes' nor a file or folder", path_or_name));
  }
  const std::string path = is_directory(path_or_name) ? path_or_name + "/tokenizer.json" : path_or_name;
  INGOT_TRY(std::unique_ptr<Tokenizer> tokenizer, load_file(path, options));
  tokenizer->set_name(path_or_name);
  return tokenizer;
}

Result<void> save_tokenizer(const Tokenizer& tokenizer, const std::string& path) {
  return write_file_atomically(path, tokenizer.to_hugging_face_json());
}

}  // namespace ingot::data
