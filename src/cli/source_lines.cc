#include "cli/source_lines.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/units.h"
#include "data/dataset.h"
#include "data/source_files.h"

namespace ingot::cli {
namespace {

constexpr int64_t kMostToCount = int64_t{256}
                                 << 20;  // bytes of text whose lines are counted: a tenth of a second

bool is_compressed(const std::string& path) {
  return path.ends_with(".gz") || path.ends_with(".dz") || path.ends_with(".zst");
}

std::string name_of(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  return name.empty() ? path : name;
}

Result<std::string> describe_file(const data::SourceFile& file) {
  if (file.path == "-") return std::string("text from standard input");
  const std::string size = format_bytes(file.stored_bytes);
  const bool documents = file.format == data::TextFormat::kJsonLines;
  if (is_compressed(file.path))
    return fmt::format("{} compressed{}", size, documents ? ", a document a line" : "");
  if (file.stored_bytes > kMostToCount)
    return fmt::format("{} of {}", size, documents ? "JSON lines, a document each" : "text, one document");
  INGOT_TRY(const MappedFile text, MappedFile::open(file.path));
  const auto bytes = text.bytes();
  auto lines = std::count(bytes.begin(), bytes.end(), std::byte{'\n'});
  if (!bytes.empty() && bytes.back() != std::byte{'\n'}) ++lines;
  const std::string count = fmt::format("{} line{}", format_integer(lines), lines == 1 ? "" : "s");
  return documents ? fmt::format("{} of JSON, {}, a document each", size, count)
                   : fmt::format("{} of text, one document, {}", size, count);
}

}  // namespace

Result<SourceLine> describe_sources(const std::vector<std::string>& paths) {
  if (paths.size() == 1 && data::is_dataset_folder(paths[0]))
    return SourceLine{name_of(paths[0]), "built data"};
  std::string mistakes;
  std::vector<data::SourceFile> files;
  for (const std::string& path : paths) {
    auto found = data::find_source_files({path}, data::TextFormat::kAuto);
    if (found) {
      files.insert(files.end(), found->begin(), found->end());
    } else {
      mistakes += (mistakes.empty() ? "" : "\n") + found.error().message;
    }
  }
  if (!mistakes.empty()) return not_found(mistakes);
  SourceLine line;
  line.name = name_of(paths[0]);
  if (files.size() == 1) {
    INGOT_TRY(line.text, describe_file(files[0]));
    return line;
  }
  int64_t bytes = 0;
  for (const data::SourceFile& file : files) bytes += file.stored_bytes;
  line.text = fmt::format("{} files{}, {}", format_integer(static_cast<int64_t>(files.size())),
                          paths.size() > 1 ? fmt::format(" (this and {} more paths)", paths.size() - 1) : "",
                          format_bytes(bytes));
  return line;
}

}  // namespace ingot::cli
