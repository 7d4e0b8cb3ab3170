#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cost/collective_cost.h"

namespace ingot::cost {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kFormatVersion = 1;

constexpr Collective kOperations[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                      Collective::kAllGather, Collective::kAllToAll,
                                      Collective::kBroadcast, Collective::kBarrier};

// One list of the numbers of a fabric, for reading and writing.
template <class AnyFabric, class Visit>
void visit_numbers(AnyFabric& fabric, const Visit& visit) {
  visit("node_latency", fabric.node.latency);
  visit("node_bandwidth", fabric.node.bandwidth);
  visit("network_latency", fabric.network.latency);
  visit("network_bandwidth", fabric.network.bandwidth);
  visit("sum_bandwidth", fabric.sum_bandwidth);
  visit("message_seconds", fabric.message_seconds);
  visit("switch_seconds", fabric.switch_seconds);
}

}  // namespace

Result<Fabric> declared_fabric(const spec::ClusterSpec& cluster, Fabric fabric) {
  for (const auto& [name, link] : cluster.links) {
    if (name != "node" && name != "network") {
      return invalid(
          fmt::format("cluster.links.{}: classes of links are node (between ranks of one node) and network "
                      "(between nodes)",
                      name));
    }
    (name == "node" ? fabric.node : fabric.network) = {link.latency, link.bandwidth};
  }
  fabric.torus.assign(cluster.torus.begin(), cluster.torus.end());
  return fabric;
}

std::string to_json(const Fabric& fabric) {
  Json json;
  json["format_version"] = kFormatVersion;
  visit_numbers(fabric, [&](const char* name, double value) { json[name] = value; });
  json["cores_per_node"] = fabric.cores_per_node;
  json["torus"] = fabric.torus;
  json["library"] = Json::array();
  for (const LibraryTime& time : fabric.library)
    json["library"].push_back(
        {{"operation", name_of(time.operation)}, {"bytes", time.bytes}, {"seconds", time.seconds}});
  return json.dump(2) + "\n";
}

Result<Fabric> fabric_from_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    return corrupt("a fabric that is no JSON object: measure it again, ingot bench --comm");
  Fabric fabric;
  std::string wrong;
  const auto number = [&](const Json& object, const char* name, double& value) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number() || found->get<double>() < 0)
      wrong = name;
    else
      value = found->get<double>();
  };
  visit_numbers(fabric, [&](const char* name, double& value) { number(json, name, value); });
  double version = 0, cores = 0;
  number(json, "format_version", version);
  number(json, "cores_per_node", cores);
  fabric.cores_per_node = static_cast<int>(cores);
  if (version != kFormatVersion) wrong = "format_version";
  for (const Json& side : json.value("torus", Json::array())) {
    if (!side.is_number_integer() || side.get<int>() < 1) wrong = "torus";
    if (wrong.empty()) fabric.torus.push_back(side.get<int>());
  }
  for (const Json& row : json.value("library", Json::array())) {
    LibraryTime time;
    double bytes = 0;
    const std::string name = row.is_object() ? row.value("operation", "") : "";
    const auto* const found = std::find_if(std::begin(kOperations), std::end(kOperations),
                                           [&](Collective operation) { return name == name_of(operation); });
    if (found == std::end(kOperations)) {
      wrong = "library";
      break;
    }
    time.operation = *found;
    number(row, "bytes", bytes);
    number(row, "seconds", time.seconds);
    time.bytes = static_cast<int64_t>(bytes);
    fabric.library.push_back(time);
  }
  if (fabric.node.bandwidth <= 0 || fabric.network.bandwidth <= 0 || fabric.sum_bandwidth <= 0)
    wrong = "bandwidth";
  if (!wrong.empty())
    return corrupt(
        fmt::format("a fabric whose {} is missing or wrong: measure it again, ingot bench --comm", wrong));
  return fabric;
}

}  // namespace ingot::cost
