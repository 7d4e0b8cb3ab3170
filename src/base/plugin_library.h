#pragma once
// Shared libraries of ours that are opened when asked for, each through one versioned C table: vendor
// backends (backend/plugin.h) and transports (comm/messages_table.h). Every such table begins with
// PluginHeader.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ingot {

struct PluginHeader {
  uint32_t version;
  uint32_t table_bytes;
};

// What this program expects of a plug-in: the function without arguments that gives its table, and the table.
struct PluginInterface {
  const char* symbol;
  uint32_t version;
  uint32_t table_bytes;
};

// An open plug-in. It is never closed again: vendors' libraries leave threads and exit handlers behind.
class PluginLibrary {
 public:
  // Errors (kUnavailable), each with its reason: no such file or a library that it needs is missing (the
  // loader's own words are quoted), no entry point, another version of the table, a table that is too small.
  static Result<PluginLibrary> open(const std::string& path, const PluginInterface& interface);

  const PluginHeader* table() const { return table_; }

 private:
  explicit PluginLibrary(const PluginHeader* table) : table_(table) {}
  const PluginHeader* table_;
};

// Where `file` ("libingot-ucx.so") lies: beside this program, else in ../lib/ingot from there.
// Errors: kUnavailable when in neither.
Result<std::string> find_plugin(std::string_view file);

}  // namespace ingot
