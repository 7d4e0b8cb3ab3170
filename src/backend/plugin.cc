#include "backend/plugin.h"

#include <fmt/format.h>

#include "base/plugin_library.h"

namespace ingot::backend {

Result<Plugin> Plugin::open(const std::string& path) {
  INGOT_TRY(const PluginLibrary library,
            PluginLibrary::open(path, {INGOT_PLUGIN_SYMBOL, INGOT_PLUGIN_VERSION, sizeof(IngotPluginTable)}));
  const auto& table = *reinterpret_cast<const IngotPluginTable*>(library.table());
  const bool complete = table.name && table.target_json && table.start && table.stop && table.allocate &&
                        table.release && table.bind && table.run && table.synchronise;
  if (!complete)
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("plug-in {} leaves entries of its table empty: it is damaged, install it again", path)};
  return Plugin(&table);
}

}  // namespace ingot::backend
