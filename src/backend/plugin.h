#pragma once
// Vendor backends as shared libraries, opened when asked for through the C table of plugin_table.h. Not here:
// what a plug-in does with its table.

#include <string>

#include "backend/plugin_table.h"
#include "base/result.h"

namespace ingot::backend {

// An open plug-in; its library stays open.
class Plugin {
 public:
  // Errors (kUnavailable): those of PluginLibrary::open, and a table that is incomplete.
  static Result<Plugin> open(const std::string& path);

  const IngotPluginTable& table() const { return *table_; }

 private:
  explicit Plugin(const IngotPluginTable* table) : table_(table) {}
  const IngotPluginTable* table_;
};

}  // namespace ingot::backend
