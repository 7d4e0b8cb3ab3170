#include <fmt/format.h>

#include <array>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference.h"

namespace ingot::backend {
namespace {

std::string always() { return {}; }

constexpr std::array kBackends = {
    BackendRow{"cpu", "every core of this machine, fp32 and bf16", cpu::make_cpu_backend, always},
    BackendRow{"reference", "plain loops in double, one thread: what the others are compared with",
               reference::make, always},
    BackendRow{"reference-far", "reference in a memory space of its own, for proofs", reference::make_far,
               always},
};

}  // namespace

std::span<const BackendRow> all_backends() { return kBackends; }

Result<std::unique_ptr<Backend>> make_backend(std::string_view name) {
  std::string names;
  for (const BackendRow& row : kBackends) {
    if (row.name == name) {
      if (const std::string reason = row.unavailable(); !reason.empty())
        return Error{ErrorCode::kUnavailable, fmt::format("backend {} cannot be had here: {}", name, reason)};
      return row.make();
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return not_found(fmt::format("there is no backend {}; these are: {}", name, names));
}

}  // namespace ingot::backend
