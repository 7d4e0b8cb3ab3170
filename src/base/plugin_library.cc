#include "base/plugin_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace ingot {
namespace {

Error unavailable(std::string reason) { return {ErrorCode::kUnavailable, std::move(reason)}; }

std::string loader_message() {
  const char* message = dlerror();
  return message != nullptr ? message : "no reason given";
}

// Empty when the table can be used.
std::string fault_of(const PluginHeader& table, const PluginInterface& interface) {
  if (table.version != interface.version) {
    return fmt::format(
        "has version {} of the plug-in table, this program needs {}: install the plug-in of the same release",
        table.version, interface.version);
  }
  if (table.table_bytes < interface.table_bytes)
    return fmt::format("has a table of {} bytes, version {} has {}", table.table_bytes, table.version,
                       interface.table_bytes);
  return {};
}

}  // namespace

Result<PluginLibrary> PluginLibrary::open(const std::string& path, const PluginInterface& interface) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    return unavailable(fmt::format("plug-in {} cannot be opened: {}", path, loader_message()));
  void* entry = dlsym(library, interface.symbol);
  if (entry == nullptr)
    return unavailable(
        fmt::format("{} is no plug-in of ours: it has no function {}", path, interface.symbol));
  const PluginHeader* table = reinterpret_cast<const PluginHeader* (*)()>(entry)();
  if (table == nullptr) return unavailable(fmt::format("plug-in {} gives no table", path));
  if (const std::string fault = fault_of(*table, interface); !fault.empty())
    return unavailable(fmt::format("plug-in {} {}", path, fault));
  return PluginLibrary(table);
}

Result<std::string> find_plugin(std::string_view file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& folder : {program, (program / ".." / "lib" / "ingot").lexically_normal()}) {
    if (fs::exists(folder / file, ignored)) return (folder / file).string();
  }
  return unavailable(
      fmt::format("{} is neither in {} nor in ../lib/ingot from there: it was not built (its library was "
                  "missing then) or "
                  "not installed",
                  file, program.string()));
}

}  // namespace ingot
