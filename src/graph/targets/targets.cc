#include "graph/targets/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ingot::graph {
namespace {

constexpr std::array<std::string_view, 4> kPrecisionNames = {"fp64", "fp32", "bf16", "fp16"};

}  // namespace

std::string_view name_of(Precision precision) { return kPrecisionNames[static_cast<size_t>(precision)]; }

Result<Precision> precision_of(std::string_view name) {
  const auto found = std::ranges::find(kPrecisionNames, name);
  if (found == kPrecisionNames.end())
    return invalid(fmt::format("precision \"{}\" is unknown; it must be fp32, bf16, fp16 or fp64", name));
  return static_cast<Precision>(found - kPrecisionNames.begin());
}

const PackedLayout* find_packed(const Target& target, std::string_view name) {
  const auto found = std::ranges::find(target.packed, name, &PackedLayout::name);
  return found == target.packed.end() ? nullptr : &*found;
}

std::span<const Target* const> all_targets() {
  static const std::array<const Target*, 2> targets = {&reference_target(), &cpu_target()};
  return targets;
}

const Target* find_target(std::string_view name) {
  const auto targets = all_targets();
  const auto found = std::ranges::find(targets, name, &Target::name);
  return found == targets.end() ? nullptr : *found;
}

}  // namespace ingot::graph
