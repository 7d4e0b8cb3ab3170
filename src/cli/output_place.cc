#include "cli/output_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file.h"

namespace ingot::cli {
namespace {

namespace fs = std::filesystem;

// The nearest folder above `path`, or itself, that exists.
fs::path existing_folder(const std::string& path) {
  std::error_code ignored;
  fs::path folder = path;
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

Error refused(const std::string& path, const std::string& said, const std::string& why) {
  return invalid(fmt::format("{} = {}   cannot be written: {}. Choose another place", said, path, why));
}

}  // namespace

Result<void> check_writable(const std::string& path, const std::string& said) {
  std::error_code ignored;
  fs::path folder = existing_folder(path);
  if (!fs::is_directory(folder, ignored)) {
    if (folder != fs::path(path))
      return refused(path, said, fmt::format("{} is a file, not a folder", folder.string()));
    // A file that will be replaced.
    folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  }
  const std::string probe = (folder / fmt::format(".ingot-probe-{}", ::getpid())).string();
  if (::mkdir(probe.c_str(), 0777) != 0) {
    const std::string reason = std::generic_category().message(errno);
    return refused(path, said,
                   fmt::format("nothing can be made in {} (the system says: {})", folder.string(), reason));
  }
  (void)::rmdir(probe.c_str());
  return {};
}

}  // namespace ingot::cli
