#include "data/source_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>

#include "base/file.h"

namespace ingot::data {
namespace {

constexpr int kMaxFolderDepth = 64;

constexpr std::array<std::string_view, 3> kCompressedEndings = {".gz", ".zst", ".dz"};

struct KnownEnding {
  std::string_view ending;
  TextFormat format;
};
// What a folder is searched for.
constexpr std::array<KnownEnding, 8> kKnownEndings = {{{".txt", TextFormat::kPlainText},
                                                       {".text", TextFormat::kPlainText},
                                                       {".md", TextFormat::kPlainText},
                                                       {".rst", TextFormat::kPlainText},
                                                       {".dict", TextFormat::kPlainText},
                                                       {".jsonl", TextFormat::kJsonLines},
                                                       {".ndjson", TextFormat::kJsonLines},
                                                       {".jsonlines", TextFormat::kJsonLines}}};

std::string_view without_compression(std::string_view path) {
  for (std::string_view ending : kCompressedEndings) {
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

TextFormat format_by_name(std::string_view path) {
  const std::string_view plain = without_compression(path);
  for (const KnownEnding& known : kKnownEndings) {
    if (plain.ends_with(known.ending)) return known.format;
  }
  return TextFormat::kAuto;
}

std::string system_reason() { return std::strerror(errno); }

class SourceCollector {
 public:
  explicit SourceCollector(TextFormat format) : format_(format) {}

  Result<void> add(const std::string& path) {
    if (path == "-") return add_standard_input();
    struct stat status {};
    if (stat(path.c_str(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) return add_folder(path);
      return add_file(path, status);
    }
    if (path.find_first_of("*?[") != std::string::npos) return add_glob(path);
    if (errno == ENOENT || errno == ENOTDIR) {
      return not_found(fmt::format(
          "There is no file {}. Check the path, or quote a pattern such as 'corpus/*.txt'", path));
    }
    return io_error(fmt::format("{} cannot be read: {}", path, system_reason()));
  }

  std::vector<SourceFile> take() { return std::move(files_); }

 private:
  Result<void> add_standard_input() {
    if (!seen_.insert("-").second) return invalid("Standard input (-) is given twice; it can be read once");
    files_.push_back({"-", format_, 0, 0});
    return {};
  }

  Result<void> add_file(const std::string& path, const struct stat& status) {
    if (!seen_.insert(path).second) {
      return invalid(fmt::format("{} is given twice; its documents would count double", path));
    }
    const bool regular = S_ISREG(status.st_mode);
    if (regular && status.st_size == 0) {
      return invalid(fmt::format("{} is empty. Give a file that holds text", path));
    }
    TextFormat format = format_ == TextFormat::kAuto ? format_by_name(path) : format_;
    if (format == TextFormat::kAuto) format = TextFormat::kPlainText;
    const int64_t modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    files_.push_back({path, format, regular ? int64_t{status.st_size} : 0, modified_ns});
    return {};
  }

  Result<void> add_folder(const std::string& path) {
    std::vector<std::string> found;
    INGOT_TRY_VOID(search(path, 0, &found));
    if (found.empty()) {
      return not_found(
          fmt::format("The folder {} holds no text: files that end in .txt, .text, .md, .rst, .dict, .jsonl, "
                      ".ndjson or .jsonlines, "
                      "or these with .gz, .zst or .dz. Name other files one by one or by a pattern ('{}/*')",
                      path, path));
    }
    return add_sorted(std::move(found));
  }

  Result<void> search(const std::string& folder, int depth, std::vector<std::string>* found) {
    if (depth > kMaxFolderDepth) {
      return invalid(fmt::format("{} lies more than {} folders deep; is there a link to a folder above?",
                                 folder, kMaxFolderDepth));
    }
    INGOT_TRY(const std::vector<std::string> names, list_directory(folder));
    for (const std::string& name : names) {
      if (name.starts_with(".")) continue;
      const std::string path = folder.ends_with("/") ? folder + name : folder + "/" + name;
      struct stat status {};
      if (stat(path.c_str(), &status) != 0) continue;  // a dangling link, or removed meanwhile
      if (S_ISDIR(status.st_mode)) {
        INGOT_TRY_VOID(search(path, depth + 1, found));
      } else if (S_ISREG(status.st_mode) && format_by_name(path) != TextFormat::kAuto && status.st_size > 0) {
        found->push_back(path);
      }
    }
    return {};
  }

  Result<void> add_glob(const std::string& pattern) {
    glob_t matches{};
    const int code = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
    std::vector<std::string> found;
    for (size_t i = 0; code == 0 && i < matches.gl_pathc; ++i) found.emplace_back(matches.gl_pathv[i]);
    globfree(&matches);
    if (code == GLOB_NOSPACE || code == GLOB_ABORTED) {
      return io_error(fmt::format("The pattern {} cannot be searched: {}", pattern, system_reason()));
    }
    std::erase_if(found, [](const std::string& path) {
      struct stat status {};
      return stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode);
    });
    if (found.empty()) return not_found(fmt::format("No file matches the pattern {}", pattern));
    return add_sorted(std::move(found));
  }

  Result<void> add_sorted(std::vector<std::string> paths) {
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      struct stat status {};
      if (stat(path.c_str(), &status) != 0) {
        return io_error(fmt::format("{} cannot be read: {}", path, system_reason()));
      }
      INGOT_TRY_VOID(add_file(path, status));
    }
    return {};
  }

  TextFormat format_;
  std::vector<SourceFile> files_;
  std::set<std::string> seen_;
};

}  // namespace

Result<std::vector<SourceFile>> find_source_files(const std::vector<std::string>& paths, TextFormat format) {
  if (paths.empty()) return invalid("No text was given: name files, folders or patterns");
  SourceCollector collector(format);
  for (const std::string& path : paths) INGOT_TRY_VOID(collector.add(path));
  return collector.take();
}

}  // namespace ingot::data
