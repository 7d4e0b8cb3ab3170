#pragma once
// What messages cost between the ranks of this machine or cluster: measured by ingot bench --comm and kept in
// the cache folder, one file a transport (docs/formats/fabric.md).

#include <string>
#include <string_view>

#include "cost/collective_cost.h"

namespace ingot::cli {

std::string fabric_path(std::string_view transport);
// The kept one, with what [cluster] declares in place of what it measured; cost's defaults where nothing was
// measured. Errors: a file that is there and cannot be read; a class of links that there is not.
Result<cost::Fabric> kept_fabric(std::string_view transport, const spec::ClusterSpec& cluster);

}  // namespace ingot::cli
