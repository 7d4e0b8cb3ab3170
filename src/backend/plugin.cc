#include "backend/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

namespace ingot::backend {
namespace {

Error unavailable(std::string reason) { return {ErrorCode::kUnavailable, std::move(reason)}; }

std::string loader_message() {
  const char* message = dlerror();
  return message != nullptr ? message : "no reason given";
}

// Empty when the table can be used.
std::string fault_of(const IngotPluginTable& table) {
  if (table.version != INGOT_PLUGIN_VERSION) {
    return fmt::format(
        "has version {} of the plug-in table, this program needs {}: install the plug-in of the same release",
        table.version, INGOT_PLUGIN_VERSION);
  }
  if (table.table_bytes < sizeof(IngotPluginTable))
    return fmt::format("has a table of {} bytes, version {} has {}", table.table_bytes, table.version,
                       sizeof(IngotPluginTable));
  const bool complete = table.name && table.target_json && table.start && table.stop && table.allocate &&
                        table.release && table.bind && table.run && table.synchronise;
  return complete ? std::string()
                  : std::string("leaves entries of its table empty: it is damaged, install it again");
}

}  // namespace

Result<Plugin> Plugin::open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return unavailable(fmt::format("plug-in {} cannot be opened: {}", path, loader_message()));
  Plugin plugin(library, nullptr);  // closes it on the ways out below
  void* entry = dlsym(library, INGOT_PLUGIN_SYMBOL);
  if (entry == nullptr)
    return unavailable(
        fmt::format("{} is no plug-in of ours: it has no function {}", path, INGOT_PLUGIN_SYMBOL));
  plugin.table_ = reinterpret_cast<const IngotPluginTable* (*)()>(entry)();
  if (plugin.table_ == nullptr) return unavailable(fmt::format("plug-in {} gives no table", path));
  if (const std::string fault = fault_of(*plugin.table_); !fault.empty())
    return unavailable(fmt::format("plug-in {} {}", path, fault));
  return plugin;
}

Plugin::Plugin(Plugin&& other) noexcept
    : library_(std::exchange(other.library_, nullptr)), table_(std::exchange(other.table_, nullptr)) {}

Plugin& Plugin::operator=(Plugin&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(table_, other.table_);
  return *this;
}

Plugin::~Plugin() {
  if (library_ != nullptr) dlclose(library_);
}

}  // namespace ingot::backend
