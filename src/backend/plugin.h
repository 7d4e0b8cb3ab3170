#pragma once
// Vendor backends as shared libraries, opened when asked for through the C table of plugin_table.h. Not here:
// what a plug-in does with its table.

#include <string>

#include "backend/plugin_table.h"
#include "base/result.h"

namespace ingot::backend {

// An open plug-in; the library stays open as long as it lives. Move-only.
class Plugin {
 public:
  // Errors (kUnavailable), each with its reason: no such file or a library that it needs is missing (the
  // loader's own words are quoted), no entry point, another version of the table, a table that is too small
  // or incomplete.
  static Result<Plugin> open(const std::string& path);
  Plugin(Plugin&& other) noexcept;
  Plugin& operator=(Plugin&& other) noexcept;
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  ~Plugin();

  const IngotPluginTable& table() const { return *table_; }

 private:
  Plugin(void* library, const IngotPluginTable* table) : library_(library), table_(table) {}
  void* library_ = nullptr;
  const IngotPluginTable* table_ = nullptr;
};

}  // namespace ingot::backend
