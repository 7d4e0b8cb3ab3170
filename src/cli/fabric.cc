#include "cli/fabric.h"

#include <fmt/format.h>

#include "base/file.h"
#include "cli/machine.h"

namespace ingot::cli {

std::string fabric_path(std::string_view transport) {
  return fmt::format("{}/fabric-{}.json", cache_folder(), transport);
}

Result<cost::Fabric> kept_fabric(std::string_view transport, const spec::ClusterSpec& cluster) {
  const std::string path = fabric_path(transport);
  cost::Fabric fabric;
  if (path_exists(path)) {
    INGOT_TRY(const std::string text, read_file(path));
    auto read = cost::fabric_from_json(text);
    if (!read) return std::move(read).take_error().context(path);
    fabric = *read;
  }
  return cost::declared_fabric(cluster, std::move(fabric));
}

}  // namespace ingot::cli
